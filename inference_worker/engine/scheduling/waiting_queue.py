"""Queues sequences that wait for admission to the engine's running batch, fair among tenants and their requesters.

A requester's sequences are first in, first out. Preempted sequences go before all of them. The fair queue itself is
`router/tenant_fair_queue.py`.
"""

from __future__ import annotations

from collections import deque

from inference_worker.engine.sequence import Sequence
from router.tenant_fair_queue import OUTPUT_WEIGHT, PROMPT_WEIGHT, TenantFairQueue


class WaitingQueue:
    """Sequences that wait for admission: preempted ones first, then new ones, fair among tenants and requesters."""

    def __init__(self) -> None:
        self._front: deque[Sequence] = deque()
        self._fair_queue: TenantFairQueue[Sequence] = TenantFairQueue()

    def __len__(self) -> int:
        return len(self._front) + len(self._fair_queue)

    def push(self, sequence: Sequence) -> None:
        """Queue a new sequence behind the other new ones of its requester."""
        self._fair_queue.push(sequence.tenant, sequence.requester, sequence)

    def push_front(self, sequence: Sequence) -> None:
        """Queue a preempted sequence before all waiting sequences."""
        self._front.appendleft(sequence)

    def peek(self) -> Sequence | None:
        """Return the next sequence to admit, without removing it from the queue; `None` if none waits."""
        return self._front[0] if self._front else self._fair_queue.peek()

    def pop(self) -> Sequence:
        """Remove the next sequence to admit from the queue and return it.

        Raises:
            IndexError: no sequence waits.
        """
        return self._front.popleft() if self._front else self._fair_queue.pop()

    def discard(self, sequence: Sequence) -> None:
        """Remove `sequence` from the queue, as after an abort; does nothing if the sequence does not wait."""
        if sequence in self._front:
            self._front.remove(sequence)
        else:
            self._fair_queue.discard(sequence.tenant, sequence.requester, sequence)

    def charge(self, sequence: Sequence, *, prompt: int = 0, output: int = 0) -> None:
        """Record that tokens of a sequence were computed, so that other tenants and requesters are admitted first.

        Args:
            prompt: number of prompt tokens computed.
            output: number of generated tokens computed.
        """
        self._fair_queue.charge(sequence.tenant, sequence.requester, prompt * PROMPT_WEIGHT + output * OUTPUT_WEIGHT)
