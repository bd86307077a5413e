"""Queues sequences that wait for admission to the engine's running batch, fair among tenants and their requesters.

Sequences of the service class `flex` come after all others. Within either group preempted sequences go first, and a
requester's sequences are first in, first out. The fair queue itself is `router/tenant_fair_queue.py`.
"""

from __future__ import annotations

from collections import deque

from inference_worker.engine.sequence import Sequence
from router.tenant_fair_queue import OUTPUT_WEIGHT, PROMPT_WEIGHT, TenantFairQueue


class _Group:
    """Waiting sequences of the class `flex`, or of all other classes."""

    def __init__(self) -> None:
        self.preempted: deque[Sequence] = deque()
        self.new: TenantFairQueue[Sequence] = TenantFairQueue()

    def __len__(self) -> int:
        return len(self.preempted) + len(self.new)


class WaitingQueue:
    """Sequences that wait for admission: `flex` last, preempted ones first, new ones fair among requesters."""

    def __init__(self) -> None:
        self._non_flex, self._flex = _Group(), _Group()

    def __len__(self) -> int:
        return len(self._non_flex) + len(self._flex)

    @property
    def only_flex(self) -> bool:
        """Whether no sequence waits but those of the class `flex`, if any."""
        return not self._non_flex

    def push(self, sequence: Sequence) -> None:
        """Queue a new sequence behind the other new ones of its requester."""
        self._group(sequence).new.push(sequence.tenant, sequence.requester, sequence)

    def push_front(self, sequence: Sequence) -> None:
        """Queue a preempted sequence before all waiting sequences that it does not give way to."""
        self._group(sequence).preempted.appendleft(sequence)

    def peek(self) -> Sequence | None:
        """Return the next sequence to admit, without removing it from the queue; `None` if none waits."""
        group = self._non_flex or self._flex
        return group.preempted[0] if group.preempted else group.new.peek()

    def pop(self) -> Sequence:
        """Remove the next sequence to admit from the queue and return it.

        Raises:
            IndexError: no sequence waits.
        """
        group = self._non_flex or self._flex
        return group.preempted.popleft() if group.preempted else group.new.pop()

    def discard(self, sequence: Sequence) -> None:
        """Remove `sequence` from the queue, as after an abort; does nothing if the sequence does not wait."""
        group = self._group(sequence)
        if sequence in group.preempted:
            group.preempted.remove(sequence)
        else:
            group.new.discard(sequence.tenant, sequence.requester, sequence)

    def charge(self, sequence: Sequence, *, prompt: int = 0, output: int = 0) -> None:
        """Record that tokens of a sequence were computed, so that other tenants and requesters are admitted first.

        Args:
            prompt: number of prompt tokens computed.
            output: number of generated tokens computed.
        """
        cost = prompt * PROMPT_WEIGHT + output * OUTPUT_WEIGHT
        self._group(sequence).new.charge(sequence.tenant, sequence.requester, cost)

    def _group(self, sequence: Sequence) -> _Group:
        return self._flex if sequence.flex else self._non_flex
