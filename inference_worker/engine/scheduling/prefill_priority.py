"""Decides which entries of a planned step are deferred to the next one, so that prompts are computed sooner.

Deferred entries keep their blocks. Decodes are deferred for short prompts, at most every second time. Sequences of the
service class `flex` are deferred for each prompt of another class; where decodes are deferred at all, because each row
of a step takes time, they are deferred for each sequence of another class.
"""

from __future__ import annotations

from inference_worker.engine.batch import ScheduledSequence

MAX_FLEX_DEFERRALS = 7
"""Number of steps in a row that sequences of the class `flex` can be left out of, so that they never starve."""


class PrefillPriority:
    """Priority of prompts in the steps of one engine, step after step."""

    def __init__(self, short_prompts: range) -> None:
        """`short_prompts`: the numbers of prompt tokens in a step for which decodes are deferred, or interrupted."""
        self._short_prompts = short_prompts
        self._decode_deferred = False
        """Whether decodes were deferred in the step planned last, or interrupted within it."""
        self._flex_deferrals = 0
        """Number of steps in a row that sequences of the class `flex` were left out of."""
        self._interruptible = False
        self._delays_decodes = False
        """Whether an interruption of the current step delays decodes of other classes than `flex`."""
        self._delays_flex = False

    def begin_step(self) -> None:
        """Begin to plan a step, which can't be interrupted before `kept` is called."""
        self._interruptible = False

    def kept(self, entries: list[ScheduledSequence]) -> list[ScheduledSequence]:
        """Return the entries of a step that stay in it. Those of the class `flex` are the last of `entries`."""
        flex = [entry for entry in entries if entry.sequence.flex]
        usual = entries[: len(entries) - len(flex)]
        kept = usual or flex
        prompts = [entry for entry in kept if entry.count > 1 or not entry.sequence.generated]
        eligible = sum(entry.count for entry in prompts) in self._short_prompts
        defers_flex = bool(usual and flex and (prompts or self._short_prompts))
        defers_flex = defers_flex and self._flex_deferrals < MAX_FLEX_DEFERRALS
        self._flex_deferrals = self._flex_deferrals + 1 if defers_flex else 0
        self._delays_decodes, self._delays_flex = bool(usual), bool(flex) and not defers_flex
        self._interruptible = not usual or not (prompts or (self._decode_deferred and not self._delays_flex))
        self._decode_deferred = eligible and not self._decode_deferred and len(prompts) < len(kept)
        if self._decode_deferred:
            kept = prompts
        return kept + flex if usual and not defers_flex else kept

    def may_interrupt(self, prompt_tokens: int, *, flex: bool) -> bool:
        """Return whether a prompt may be computed between two layers of the current step, which was planned last.

        The prompt must be short and not of the class `flex`; below the short ones, which cost little next to the
        decodes of a step, it may interrupt a step with `flex`. A step with other classes must have no prompts of them,
        and unless it computes `flex` too their decodes must not have been deferred, or interrupted, just before.
        """
        least = 1 if self._delays_flex else self._short_prompts.start
        return self._interruptible and not flex and least <= prompt_tokens < self._short_prompts.stop

    def record_interrupt(self) -> None:
        """Record that the current step is interrupted: not again, and decodes that it delays are not deferred next."""
        self._interruptible, self._decode_deferred = False, self._delays_decodes
