"""How fast a worker is when it has all that it can do, learnt from its heartbeats.

What a worker makes while it has room says how much it was asked, not how much it can do. So its rate counts only where
it was busy at this heartbeat and at the one before, that is, over the whole second between them: jobs waited for it, or
it ran as many as gateways let one tenant have, who leave an eighth of the places free. Does not know models or queues.
"""

from __future__ import annotations

from router.messages import WorkerStatus

NEWEST_SHARE = 0.3
"""Weight of the last second in the mean: three seconds change it by two thirds."""
BUSY_SHARE = 0.85
"""Part of its places that a busy worker runs."""


class Throughput:
    """One life of one worker."""

    def __init__(self) -> None:
        self.is_full = False
        """Whether jobs have waited for it during the last second."""
        self.tokens_per_second: float | None = None
        """While it is busy: moving average; `None`: it never was."""
        self._had_waiting = self._was_busy = False

    def observe(self, status: WorkerStatus) -> None:
        """Take in its next heartbeat."""
        self.is_full = self._had_waiting and status.waiting > 0
        self._had_waiting = status.waiting > 0
        is_busy = status.waiting > 0 or status.running >= BUSY_SHARE * status.max_num_seqs
        was_busy, self._was_busy = self._was_busy, is_busy
        if is_busy and was_busy:
            last, mean = status.tokens_per_second, self.tokens_per_second
            self.tokens_per_second = last if mean is None else mean + NEWEST_SHARE * (last - mean)
