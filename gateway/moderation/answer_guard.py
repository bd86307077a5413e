"""Holds back the deltas of an answer until moderation has passed them, and ends choices that it blocks.

Each check reads the text that is held back, after the end of what was sent. The last `HELD_BACK` characters stay until
the next check, so that no beginning of a blocked phrase leaves before its end is known. Invisible characters do not
count, as a phrase could be longer by any number of them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from gateway.moderation.checked_texts import AnswerText
from gateway.moderation.visible_text import start_of_last
from router.messages import Delta

HELD_BACK = 64
"""Visible characters at the end of an unfinished choice that are not sent yet."""
CONTEXT = 96
"""Visible characters before the held text that a check reads too."""
MAX_DELAY = 1.0
"""Seconds after which text is checked that is too short for a window."""

NumberedDelta = tuple[int, Delta]
"""A delta with the number of its choice in the request."""


class Window(NamedTuple):
    """A part of an answer that a check reads."""

    text: str
    begins: bool
    """Whether it is the beginning of the answer; else it may begin within a word."""
    ends: bool
    """Whether it is the end of the answer; else it may end within a word."""


Check = Callable[[Sequence[Window]], Awaitable[Sequence[bool]]]
"""Returns for each window whether it is blocked."""


class _Choice:
    """Deltas of one choice that were not sent yet, and the end of its text that was."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.held: list[tuple[Delta, str]] = []
        """Deltas with their texts."""
        self.text = ""
        """Text of the held deltas."""
        self.ended = False
        """Whether its last delta has arrived."""
        self.blocked = False
        self._texts = AnswerText()
        self._sent = ""
        self._begins = True
        """Whether the text that was sent is kept from its beginning."""
        self._checked = 0
        """Characters of the held text that the last check has read."""
        self._since = 0.0
        """Monotonic time of the first delta after the last check."""

    def add(self, delta: Delta, now: float) -> None:
        """Hold back one more delta."""
        if len(self.text) == self._checked:
            self._since = now
        text = self._texts.add(delta)
        self.held.append((delta, text))
        self.text += text
        self.ended = self.ended or delta.finish_reason is not None

    def is_due(self, now: float, window: int) -> bool:
        """Return whether the held text is to be checked: enough of it is new, or has waited long enough."""
        if not self.held:
            return False
        new = len(self.text) - self._checked
        waited = new > 0 and now - self._since >= MAX_DELAY
        at_once = self.ended or not self.text or any(delta.step is not None for delta, _ in self.held)
        return at_once or new >= window or waited

    def checked(self, *, ended: bool) -> Window:
        """Return what a check reads: the end of what was sent, and what is held; `ended`: nothing follows."""
        return Window(self._sent + self.text, self._begins, self.ended or ended)

    def release(self, *, whole: bool) -> list[NumberedDelta]:
        """Return the deltas that may be sent after their text has passed: all, or all but the last characters.

        Steps precede the text of an answer, and are sent as soon as they have passed.
        """
        size, released = 0, 0
        most = len(self.text) if whole else start_of_last(self.text, HELD_BACK)
        for delta, text in self.held:
            if delta.step is None and size + len(text) > most:
                break
            size, released = size + len(text), released + 1
        passed, self.held = self.held[:released], self.held[released:]
        sent = self._sent + self.text[:size]
        kept_from = start_of_last(sent, CONTEXT)
        self._sent, self._begins = sent[kept_from:], self._begins and not kept_from
        self.text = self.text[size:]
        self._checked = len(self.text)
        return [(self.number, delta) for delta, _ in passed]

    def block(self) -> list[NumberedDelta]:
        """End the choice: return its last delta, which replaces all that are held."""
        (first, _), self.held, self.blocked, self.ended = self.held[0], [], True, True
        end = Delta(
            job_id=first.job_id,
            attempt_id=first.attempt_id,
            choice=first.choice,
            start=first.start,
            token_ids=[],
            finish_reason="content_filter",
        )
        return [(self.number, end)]


class AnswerGuard:
    """Checks the deltas of a request's choices, in windows, before they are sent."""

    def __init__(self, choices: int, check: Check, *, window: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`check` is called with windows of due choices; `window`: new characters from which a choice is due."""
        self._choices = [_Choice(number) for number in range(choices)]
        self._check = check
        self._window = window
        self._clock = clock

    @property
    def stopped(self) -> bool:
        """Whether a choice was blocked and none is unfinished, so that nothing that still arrives would be sent."""
        return all(each.ended for each in self._choices) and any(each.blocked for each in self._choices)

    def resume(self, deltas: Sequence[NumberedDelta]) -> None:
        """Take `deltas` as checked and sent before."""
        for number, delta in deltas:
            choice = self._choices[number]
            choice.add(delta, self._clock())
            choice.release(whole=True)

    async def release(self, deltas: Sequence[NumberedDelta], *, ended: bool) -> list[NumberedDelta]:
        """Hold back `deltas`, check what is due, and return what may be sent; with `ended` everything is due."""
        now = self._clock()
        for number, delta in deltas:
            if not self._choices[number].blocked:
                self._choices[number].add(delta, now)
        due = [each for each in self._choices if each.is_due(now, self._window) or (ended and each.held)]
        unread = [each for each in due if each.text]
        blocked = await self._check([each.checked(ended=ended) for each in unread]) if unread else []
        refused = {each.number for each, is_blocked in zip(unread, blocked, strict=True) if is_blocked}
        released: list[NumberedDelta] = []
        for each in due:
            released += each.block() if each.number in refused else each.release(whole=ended or each.ended)
        return released
