"""Returns the MongoDB server's time, for rate-limit buckets: read every 10 s, extrapolated locally in between.

So all processes that share a store use one clock.
"""

from __future__ import annotations

import time

from auth_billing.store.connection import StoreConnection

REFRESH_INTERVAL = 10.0
"""Seconds after which the clock is read again; a jump of the server's clock goes unnoticed for at most that long."""


class ServerClock:
    """The clock of the server behind a connection."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection
        self._offset = 0.0
        self._read_at = -REFRESH_INTERVAL

    async def now(self) -> float:
        """Return the MongoDB server's time in Unix seconds, read from it at most every `REFRESH_INTERVAL` seconds.

        Raises:
            StoreUnavailable: the last reading is too old, and the server does not answer.
        """
        before = time.monotonic()
        if before - self._read_at >= REFRESH_INTERVAL:
            server_time = await self._connection.server_time()
            after = time.monotonic()
            self._offset, self._read_at = server_time - (before + after) / 2, after
        return time.monotonic() + self._offset
