"""What time it is for the server: one clock for all processes that share a store.

Asked now and then, and reckoned by this process's own monotonic clock in between.
"""

from __future__ import annotations

import time

from auth_billing.store.connection import StoreConnection

TRUSTED_SECONDS = 10.0
"""After which it is asked again: so long does a step of the server's clock stay unnoticed."""


class ServerClock:
    """The clock of the server behind a connection."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection
        self._ahead = 0.0
        self._asked_at = -TRUSTED_SECONDS

    async def now(self) -> float:
        """Unix seconds.

        Raises:
            StoreUnavailable: it was not asked lately, and does not answer.
        """
        before = time.monotonic()
        if before - self._asked_at >= TRUSTED_SECONDS:
            told = await self._connection.server_time()
            after = time.monotonic()
            self._ahead, self._asked_at = told - (before + after) / 2, after
        return time.monotonic() + self._ahead
