"""When each key was last used: gathered in memory, written once a minute for all keys together.

A process that dies takes at most a minute of it along: it tells people which keys nobody needs, and decides nothing.
"""

from __future__ import annotations

import asyncio

import structlog

from auth_billing.errors import AccountError
from auth_billing.records import ApiKeyStore

WRITTEN_EVERY = 60.0

_log = structlog.get_logger(__name__)


class LastUses:
    """Uses of keys since the last writing."""

    def __init__(self, keys: ApiKeyStore) -> None:
        self._keys = keys
        self._uses: dict[str, float] = {}

    def note(self, key_id: str, now: float) -> None:
        """A key was used at `now` (Unix seconds)."""
        self._uses[key_id] = now

    async def keep_written(self, every: float = WRITTEN_EVERY) -> None:
        """Write every so many seconds, until cancelled, and then once more."""
        try:
            while True:
                await asyncio.sleep(every)
                await self.write()
        finally:
            await self.write()

    async def write(self) -> None:
        """Write what there is. A store that is away gets it the next time."""
        uses, self._uses = self._uses, {}
        try:
            if uses:
                await self._keys.used(uses)
        except AccountError as error:
            self._uses = uses | self._uses
            _log.warning("last uses of keys are not written yet", keys=len(uses), reason=str(error))
