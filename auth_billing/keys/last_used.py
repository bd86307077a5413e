"""Records when each API key was last used: collected in memory, written once a minute for all keys together.

A process that crashes loses at most a minute of it. The time is informational: it shows which keys are unused.
"""

from __future__ import annotations

import asyncio

import structlog

from auth_billing.errors import AccountError
from auth_billing.keys.key_records import ApiKeyStore

WRITTEN_EVERY = 60.0

_log = structlog.get_logger(__name__)


class LastUses:
    """Collects the times of last use since the last write."""

    def __init__(self, keys: ApiKeyStore) -> None:
        self._keys = keys
        self._uses: dict[str, float] = {}

    def note(self, key_id: str, now: float) -> None:
        """Record that a key was used at `now` (Unix seconds)."""
        self._uses[key_id] = now

    async def keep_written(self, every: float = WRITTEN_EVERY) -> None:
        """Write every `every` seconds until cancelled, and once more then."""
        try:
            while True:
                await asyncio.sleep(every)
                await self.write()
        finally:
            await self.write()

    async def write(self) -> None:
        """Write the collected times. If the store is away, they are kept for the next write."""
        uses, self._uses = self._uses, {}
        try:
            if uses:
                await self._keys.used(uses)
        except AccountError as error:
            self._uses = uses | self._uses
            _log.warning("times of last use not written yet", keys=len(uses), reason=str(error))
