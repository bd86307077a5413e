"""The raw text of one choice, taken apart into what the client sees as text and what it sees as calls.

Gives out any first part of what is decided, so that a token's text and its share of a call leave with the token.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Set

from inference_worker.worker.text.tool_calls.call_reader import CallReader
from inference_worker.worker.text.tool_calls.markup import Kind, Span
from router.messages import ToolCallDelta, joined_calls


class CallText:
    """One choice; `choice` names it among all choices of all jobs, so that a resumed one gives its calls equal ids."""

    def __init__(self, reader: CallReader, choice: str, tokens: Set[int]) -> None:
        self.tokens = tokens
        """Control tokens that are a part of the markup: their text is needed."""
        self.decided = 0
        """Characters that `take` can give."""
        self._reader = reader
        self._choice = choice
        self._spans: deque[Span] = deque()
        self._given = 0
        """Characters that are with a client, though it is not yet decided what they are."""

    @property
    def finished(self) -> bool:
        """Whether no more may follow."""
        return self._reader.finished

    @property
    def all_complete(self) -> bool:
        """Whether there are calls, and each has all its arguments."""
        return self._reader.all_complete

    def push(self, text: str) -> None:
        """Take more of the raw text."""
        self._keep(self._reader.push(text))

    def resume_after(self, text: str) -> None:
        """Take the raw text that a client already has."""
        self.push(text)
        self._given = len(text) - self.decided
        self.take(self.decided)

    def finish(self) -> None:
        """There is no more: what was undecided is decided."""
        self._keep(self._reader.finish())

    def take(self, length: int) -> tuple[str, list[ToolCallDelta] | None]:
        """The next `length` characters, which must be decided: their text, and what they add to calls."""
        text: list[str] = []
        calls: list[ToolCallDelta] = []
        self.decided -= length
        while length:
            span = self._spans.popleft()
            if span.length > length:
                span, rest = span.split(length)
                self._spans.appendleft(rest)
            length -= span.length
            if span.kind is Kind.TEXT:
                text.append(span.text)
            elif span.kind is Kind.ARGUMENTS:
                calls.append(self._delta(span))
        return "".join(text), joined_calls(calls) or None

    def _keep(self, spans: list[Span]) -> None:
        for span in spans:
            self._spans.append(span)
            self.decided += span.length
        if self._given:
            known = min(self._given, self.decided)
            self._given -= known
            self.take(known)

    def _delta(self, span: Span) -> ToolCallDelta:
        id_ = call_id(self._choice, span.call) if span.name else ""
        return ToolCallDelta(i=span.call, id=id_, name=span.name, args=span.text)


def call_id(choice: str, index: int) -> str:
    """The id of a choice's call: the same whenever and wherever it is asked for."""
    return f"call_{hashlib.sha256(f'{choice}/{index}'.encode()).hexdigest()[:24]}"
