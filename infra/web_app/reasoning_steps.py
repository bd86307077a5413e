"""Turns the reasoning of an answer into the one step that the chat stores and shows, with the time that it took."""

from __future__ import annotations

import json
from collections.abc import Callable

from chat_ui.history.steps import REASONING, Step, StepState

MAX_BYTES = 120_000
"""Bytes of the stored text as JSON; the rest of a longer reasoning is cut off."""
INTERVAL = 1.0
"""Seconds between two reports of a growing text, each of which has the whole text."""
BYTES_PER_SECOND = 20_000
"""Bytes of such reports per second, at most; longer texts are reported less often."""


class ReasoningSteps:
    """The reasoning of one answer. Each report is a step of the same number, which replaces the one before it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._number = 0
        self._pieces: list[str] = []
        self._size = 0
        self._cut = False
        self._begun: float | None = None
        self._reported: float | None = None
        self._ended = False

    def follow(self, step: Step) -> None:
        """Record another step of the answer, after which the reasoning is numbered."""
        if self._begun is None:
            self._number = max(self._number, step.number + 1)

    def add(self, text: str) -> Step | None:
        """Add generated reasoning; return the step to report now, `None` if the next report is not due."""
        now = self._clock()
        if self._begun is None:
            self._begun = now
        elif self._ended:
            return None
        size = len(json.dumps(text)) - 2
        self._cut = self._cut or self._size + size > MAX_BYTES
        if not self._cut:
            self._pieces.append(text)
            self._size += size
        interval = max(INTERVAL, self._size / BYTES_PER_SECOND)
        if self._reported is not None and now - self._reported < interval:
            return None
        self._reported = now
        return self._step(StepState.RUNNING, now - self._begun)

    def end(self) -> Step | None:
        """End the reasoning, as the answer begins or ends; return the last step, `None` without any or at a repetition.

        The step is done even if the answer ended within its reasoning.
        """
        if self._begun is None or self._ended:
            return None
        self._ended = True
        return self._step(StepState.DONE, self._clock() - self._begun)

    def _step(self, state: StepState, seconds: float) -> Step:
        self._pieces = ["".join(self._pieces)]
        data = {"text": self._pieces[0], "seconds": round(seconds, 1), **({"cut": True} if self._cut else {})}
        return Step(self._number, REASONING, "", state, data)
