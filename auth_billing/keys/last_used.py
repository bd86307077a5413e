"""Records when each API key was last used: collected in memory, written once a minute for all keys together.

A process that crashes loses at most a minute of it. The time is informational: it shows which keys are unused.
"""

from __future__ import annotations

import asyncio

import structlog

from auth_billing.errors import AccountError
from auth_billing.keys.key_records import ApiKeyStore

FLUSH_INTERVAL = 60.0
"""Seconds between two writes of the times at which keys were last used."""

_log = structlog.get_logger(__name__)


class LastUsedTimes:
    """Collects in memory when API keys were last used, to store all times in one write."""

    def __init__(self, keys: ApiKeyStore) -> None:
        self._keys = keys
        self._uses: dict[str, float] = {}

    def record(self, key_id: str, now: float) -> None:
        """Note in memory that the API key was used at `now` (Unix seconds); the next `flush` stores the time."""
        self._uses[key_id] = now

    async def flush_periodically(self) -> None:
        """Write the collected last-use times of API keys every `FLUSH_INTERVAL` seconds, and when cancelled."""
        try:
            while True:
                await asyncio.sleep(FLUSH_INTERVAL)
                await self.flush()
        finally:
            await self.flush()

    async def flush(self) -> None:
        """Store the collected last-use times of API keys; keep them for later while the store is unavailable."""
        uses, self._uses = self._uses, {}
        try:
            if uses:
                await self._keys.set_last_used(uses)
        except AccountError as error:
            self._uses = uses | self._uses
            _log.warning("times of last use not written yet", keys=len(uses), reason=str(error))
