"""Splits the raw text of one choice into the client's text and its tool call deltas.

Decided text can be taken in any amounts, so that a token's text and its part of a call are sent with the token.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Set

from inference_worker.worker.text.tool_calls.call_reader import CallReader
from inference_worker.worker.text.tool_calls.markup import Kind, Span
from router.messages import ToolCallDelta, merge_tool_calls


class CallText:
    """Splitter of one choice. `choice` is its unique id, so that a resumed choice gives its calls the same ids."""

    def __init__(self, reader: CallReader, choice: str, tokens: Set[int]) -> None:
        self.tokens = tokens
        """Control tokens that are part of the markup, whose text must therefore be passed to `push`."""
        self.decided = 0
        """Number of characters that `take` can return."""
        self._reader = reader
        self._choice = choice
        self._spans: deque[Span] = deque()
        self._given = 0
        """Undecided characters that the client already has."""

    @property
    def finished(self) -> bool:
        """Whether no further text is allowed."""
        return self._reader.finished

    @property
    def all_complete(self) -> bool:
        """Whether there are calls, and all their arguments are complete."""
        return self._reader.all_complete

    def push(self, text: str) -> None:
        """Add raw text."""
        self._keep(self._reader.push(text))

    def resume_after(self, text: str) -> None:
        """Add raw text that the client already has, so that `take` does not return it."""
        self.push(text)
        self._given = len(text) - self.decided
        self.take(self.decided)

    def finish(self) -> None:
        """End the text and decide the undecided characters."""
        self._keep(self._reader.finish())

    def take(self, length: int) -> tuple[str, list[ToolCallDelta] | None]:
        """Return the text and the call deltas of the next `length` characters, which must be decided."""
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
        return "".join(text), merge_tool_calls(calls) or None

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
        return ToolCallDelta(index=span.call, id=id_, name=span.name, arguments=span.text)


def call_id(choice: str, index: int) -> str:
    """Return the id of a choice's call, the same on every worker and attempt."""
    return f"call_{hashlib.sha256(f'{choice}/{index}'.encode()).hexdigest()[:24]}"
