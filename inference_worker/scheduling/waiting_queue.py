"""Sequences that wait for admission: tenants in the order of what they have had, each one's own as they came.

What was preempted had its turn already, and goes before all of them. Knows neither blocks nor budgets; the order is its
only business (`router/fair_line.py`).
"""

from __future__ import annotations

from collections import deque

from inference_worker.sequence import Sequence
from router.fair_line import OUTPUT_WEIGHT, PROMPT_WEIGHT, FairLine


class WaitingQueue:
    """A fair line whose front also takes back what was preempted."""

    def __init__(self) -> None:
        self._front: deque[Sequence] = deque()
        self._line: FairLine[Sequence] = FairLine()

    def __len__(self) -> int:
        return len(self._front) + len(self._line)

    def push(self, sequence: Sequence) -> None:
        """Let a newcomer wait."""
        self._line.push(sequence.tenant, sequence)

    def push_front(self, sequence: Sequence) -> None:
        """Put back a sequence that had its turn already."""
        self._front.appendleft(sequence)

    def peek(self) -> Sequence | None:
        """The next to admit."""
        return self._front[0] if self._front else self._line.peek()

    def pop(self) -> Sequence:
        """Take the next. Raises `IndexError` when there is none."""
        return self._front.popleft() if self._front else self._line.pop()

    def discard(self, sequence: Sequence) -> None:
        """Take a sequence out if it waits here."""
        if sequence in self._front:
            self._front.remove(sequence)
        else:
            self._line.discard(sequence.tenant, sequence)

    def served(self, sequence: Sequence, *, prompt: int = 0, output: int = 0) -> None:
        """Count tokens that were computed of a prompt, or generated."""
        self._line.charge(sequence.tenant, prompt * PROMPT_WEIGHT + output * OUTPUT_WEIGHT)
