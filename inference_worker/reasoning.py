"""Tracks by token ids how far the reasoning of a choice has come: when grammars begin, and when budgets end it.

A function of the choice's own generated tokens only, so that a resumed, preempted or speculated choice continues as if
it had never been interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec


class ReasoningTokens(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Token ids between which a choice reasons before its answer, and how long it may do so."""

    start: int | None = None
    """Id of the token that begins the reasoning if it is the first of the choice; `None`: the prompt has begun it."""
    end: list[int]
    """Ids of the tokens that end the reasoning, in order; not empty."""
    budget: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Number of reasoning tokens after which the next tokens are `forced`; `None`: no limit."""
    forced: list[int] = []
    """Ids of the tokens that follow a used up budget; the last ones are `end`."""

    def after(self, generated: Iterable[int]) -> ReasoningTokens | None:
        """Return the reasoning that remains of a choice whose first tokens become a part of the prompt.

        `None` if these have ended it.
        """
        progress = ReasoningProgress(self, generated)
        if progress.ended:
            return None
        budget = None if self.budget is None else max(0, self.budget - progress.count)
        return msgspec.structs.replace(self, start=None if progress.open else self.start, budget=budget)


class ReasoningProgress:
    """State of one choice's reasoning: not begun, open or ended. Always in step with the choice's tokens."""

    __slots__ = ("_last", "_tokens", "count", "ended", "open")

    def __init__(self, tokens: ReasoningTokens, generated: Iterable[int] = ()) -> None:
        """Begin with the tokens that the choice has already generated."""
        self._tokens = tokens
        self._last: list[int] = []
        self.count = 0
        """Number of tokens since the reasoning began."""
        self.open = tokens.start is None
        """Whether the choice reasons."""
        self.ended = False
        """Whether the answer has begun: the reasoning has ended, or the first token did not begin one."""
        for token in generated:
            self.push(token)

    def push(self, token: int) -> bool:
        """Add a generated token; return whether it belongs to the reasoning, the tokens around it included."""
        if self.ended:
            return False
        if not self.open:
            self.open = token == self._tokens.start
            self.ended = not self.open
            return self.open
        self.count += 1
        self._last = [*self._last, token][-len(self._tokens.end) :]
        if self._last == self._tokens.end:
            self.open, self.ended = False, True
        return True

    def after(self, tokens: Iterable[int]) -> ReasoningProgress:
        """Return the state after further `tokens`, without changing this one."""
        if self.ended:
            return self
        copy = ReasoningProgress(self._tokens)
        copy._last, copy.count, copy.open = self._last, self.count, self.open
        for token in tokens:
            copy.push(token)
        return copy

    @property
    def begins_with(self) -> int | None:
        """Id of the token that would begin the reasoning now, beside the tokens of an answer; `None`: none would."""
        return None if self.open or self.ended else self._tokens.start

    @property
    def unforced(self) -> int | None:
        """Number of next tokens that the model chooses at least; `None`: no budget limits them."""
        if self.ended or self._tokens.budget is None:
            return None
        return max(0, self._tokens.budget - self.count + (0 if self.open else 1))

    @property
    def forced(self) -> int | None:
        """Id of the next token if the budget is used up; `None` if the model chooses it."""
        if not self.open or self._tokens.budget is None:
            return None
        beyond = self.count - self._tokens.budget
        return self._tokens.forced[beyond] if 0 <= beyond < len(self._tokens.forced) else None


def answer_ids(tokens: ReasoningTokens | None, generated: Iterable[int]) -> list[int]:
    """Return the generated tokens of a choice that follow its reasoning; all of them if there is none."""
    if tokens is None:
        return list(generated)
    progress = ReasoningProgress(tokens)
    return [token for token in generated if not progress.push(token)]
