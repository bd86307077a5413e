"""Sweeper of project documents: erases those that have expired, at intervals."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import structlog

from auth_billing.errors import StoreUnavailable
from stored_objects.project_documents.project_documents import ProjectDocuments

BATCH = 500
"""Documents that are erased at once."""
INTERVAL = 60.0
"""Mean seconds between two sweeps."""

_log = structlog.get_logger(__name__)


class DocumentSweeper:
    """Erases expired documents of all `kinds` every `INTERVAL`. Several sweepers, one in each gateway, may run."""

    def __init__(self, kinds: Sequence[ProjectDocuments]) -> None:
        self._kinds = kinds

    async def run(self) -> None:
        """Sweep at intervals until cancelled; a failure is logged, and the next sweep repeats it."""
        while True:
            try:
                await self.sweep()
            except StoreUnavailable as error:
                _log.warning("a sweep of project documents ended early", reason=str(error))
            # Gateways that start together do not sweep together.
            await asyncio.sleep(INTERVAL * secrets.SystemRandom().uniform(0.5, 1.5))

    async def sweep(self) -> int:
        """Erase all expired documents, and return their number.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        total = 0
        for kind in self._kinds:
            while erased := await kind.delete_expired(BATCH):
                total += erased
        return total
