"""Measures a worker's tokens per second under full load from its heartbeats, for gateways' estimates of waiting times.

The rate of a worker with free capacity shows the demand, not what it can do. So a rate counts only if the worker was
busy at this heartbeat and at the one before, thus for the whole second between them. Busy means that jobs waited, or
that it ran as many sequences as gateways let one tenant have (they leave an eighth of the slots free).
"""

from __future__ import annotations

from router.messages import WorkerStatus

NEWEST_SHARE = 0.3
"""Weight of the last second in the moving average: three seconds change it by two thirds."""
BUSY_SHARE = 0.85
"""Share of its slots above which a worker counts as busy."""


class Throughput:
    """Tokens per second of one run of a worker process under full load, from its heartbeats."""

    def __init__(self) -> None:
        self.is_full = False
        """Whether jobs waited for the worker throughout the last second."""
        self.tokens_per_second: float | None = None
        """Moving average while busy; `None` if the worker was never busy."""
        self._had_waiting = self._was_busy = False

    def observe(self, status: WorkerStatus) -> None:
        """Update the worker's throughput by a heartbeat that has arrived, if the worker was busy at the one before too.

        Updates `is_full` too: whether jobs have waited since the heartbeat before.
        """
        self.is_full = self._had_waiting and status.waiting > 0
        self._had_waiting = status.waiting > 0
        is_busy = status.waiting > 0 or status.running >= BUSY_SHARE * status.max_num_seqs
        was_busy, self._was_busy = self._was_busy, is_busy
        if is_busy and was_busy:
            last, mean = status.tokens_per_second, self.tokens_per_second
            self.tokens_per_second = last if mean is None else mean + NEWEST_SHARE * (last - mean)
