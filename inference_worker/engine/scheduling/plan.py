"""A step of the engine while its scheduler plans it."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference_worker.engine.batch import BlockCopy, ScheduledSequence


@dataclass(slots=True)
class Plan:
    """A step that is being planned; `running[:position]` of the scheduler have been given tokens.

    Attributes:
        budget: tokens that the step can still have.
        preempts: whether sequences may lose their blocks or slots for it.
        blocks_lack: memory is short: a sequence lost its blocks, or should have.
        gave_way: a sequence of the class `flex` lost its slot.
    """

    budget: int
    position: int = 0
    preempts: bool = True
    blocks_lack: bool = False
    gave_way: bool = False
    entries: list[ScheduledSequence] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)

    def decode_steps(self, most: int) -> tuple[int, list[int]]:
        """Return how many steps, at most `most`, may run as planned, and each entry's number of tokens after them.

        More than one only if the step is pure decode: a grammar must be evaluated on the host after each token.
        """
        entries = self.entries
        pure_decode = entries and all(entry.count == entry.sample_count == 1 for entry in entries)
        if most == 1 or self.blocks_lack or not pure_decode or any(entry.sequence.matcher for entry in entries):
            return 1, []
        unforced = [each.sequence.reasoning.unforced for each in entries if each.sequence.reasoning is not None]
        steps = max(1, min([most, *(each for each in unforced if each is not None)]))
        # The last token of a sequence is sampled, never computed.
        return steps, [min(e.start + steps, e.sequence.prompt_length + e.sequence.max_tokens - 1) for e in entries]
