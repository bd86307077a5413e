"""Decides which entries of a planned step are deferred to the next one, so that prompts are computed sooner.

Deferred entries keep their blocks. Decodes are deferred for short prompts, at most every second time. Sequences of the
service class `flex` are deferred for each prompt of another class; where decodes are deferred at all, because each row
of a step takes time, they never share a step with sequences of another class, and their own steps are short while
such sequences come.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from inference_worker.engine.batch import ScheduledSequence
from inference_worker.engine.scheduling.limits import (
    FLEX_STEP_TOKENS,
    SHORT_FLEX_STEP_SECONDS,
    SHORT_FLEX_STEP_TOKENS,
)

MAX_FLEX_DEFERRALS = 7
"""Number of steps in a row that sequences of the class `flex` can wait for, so that they never starve.

They are left out of so many steps or, in a step of their own, wait for so many between two layers.
"""


class PrefillPriority:
    """Priority of prompts in the steps of one engine, step after step."""

    def __init__(self, short_prompts: range, clock: Callable[[], float] = time.monotonic) -> None:
        """`short_prompts`: the numbers of prompt tokens in a step for which decodes are deferred, or interrupted."""
        self._short_prompts = short_prompts
        self._clock = clock
        self._last_non_flex_at = -math.inf
        """Time of the last step that had sequences of other classes than `flex`."""
        self._decode_deferred = False
        """Whether decodes were deferred in the step planned last, or interrupted within it."""
        self._flex_deferrals = 0
        """Number of steps in a row that sequences of the class `flex` were left out of."""
        self._interruptible = False

    def begin_step(self) -> None:
        """Begin to plan a step, which can't be interrupted before `kept` is called."""
        self._interruptible = False

    @property
    def non_flex_came_lately(self) -> bool:
        """Whether a step of the last `SHORT_FLEX_STEP_SECONDS` had sequences of other classes than `flex`."""
        return self._clock() - self._last_non_flex_at < SHORT_FLEX_STEP_SECONDS

    def flex_budget(self, budget: int) -> int:
        """Return how many of the `budget` tokens that a step has left it may have for sequences of the class `flex`."""
        if not self._short_prompts:
            return budget
        return min(budget, SHORT_FLEX_STEP_TOKENS if self.non_flex_came_lately else FLEX_STEP_TOKENS)

    def kept(self, entries: list[ScheduledSequence]) -> list[ScheduledSequence]:
        """Return the entries of a step that stay in it. Those of the class `flex` are the last of `entries`."""
        non_flex, flex = self._turn(entries)
        kept = non_flex or flex
        prompts = [entry for entry in kept if _is_prompt(entry)]
        eligible = sum(entry.count for entry in prompts) in self._short_prompts
        self._interruptible = bool(non_flex) and not (prompts or self._decode_deferred)
        self._decode_deferred = eligible and not self._decode_deferred and len(prompts) < len(kept)
        if self._decode_deferred:
            kept = prompts
        return kept + flex if non_flex else kept

    def may_interrupt(self, prompt_tokens: int) -> bool:
        """Return whether a prompt may be computed between two layers of the current step, which was planned last.

        The prompt must be short, and the step must only decode, of other classes than `flex`, decodes that were not
        deferred, or interrupted, just before.
        """
        return self._interruptible and prompt_tokens in self._short_prompts

    def record_interrupt(self) -> None:
        """Record that the current step is interrupted: not again, and decodes are not deferred in the next one."""
        self._interruptible, self._decode_deferred = False, True

    def _turn(self, entries: list[ScheduledSequence]) -> tuple[list[ScheduledSequence], list[ScheduledSequence]]:
        """Return the entries whose turn it is: those of other classes, and those of the class `flex`."""
        flex = [entry for entry in entries if entry.sequence.flex]
        non_flex = entries[: len(entries) - len(flex)]
        if non_flex:
            self._last_non_flex_at = self._clock()
        if not (non_flex and flex and (self._short_prompts or any(map(_is_prompt, non_flex)))):
            self._flex_deferrals = 0
            return non_flex, flex
        if self._flex_deferrals < MAX_FLEX_DEFERRALS:
            self._flex_deferrals += 1
            return non_flex, []
        self._flex_deferrals = 0
        return [] if self._short_prompts else non_flex, flex


def _is_prompt(entry: ScheduledSequence) -> bool:
    return entry.count > 1 or not entry.sequence.generated
