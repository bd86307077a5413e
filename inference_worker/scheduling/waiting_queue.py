"""Sequences that wait for admission: first come, first served.

Knows neither blocks nor budgets; the order is its only business.
"""

from __future__ import annotations

from collections import deque

from inference_worker.sequence import Sequence


class WaitingQueue:
    """A FIFO queue whose front also takes back what was preempted."""

    def __init__(self) -> None:
        self._queue: deque[Sequence] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, sequence: Sequence) -> None:
        """Put a newcomer at the end."""
        self._queue.append(sequence)

    def push_front(self, sequence: Sequence) -> None:
        """Put back a sequence that had its turn already."""
        self._queue.appendleft(sequence)

    def peek(self) -> Sequence | None:
        """The next to admit."""
        return self._queue[0] if self._queue else None

    def pop(self) -> Sequence:
        """Take the next. Raises `IndexError` when there is none."""
        return self._queue.popleft()

    def discard(self, sequence: Sequence) -> None:
        """Take a sequence out if it waits here."""
        if sequence in self._queue:
            self._queue.remove(sequence)
