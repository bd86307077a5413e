"""Splits the generated text of one choice into the text for the client and the deltas of its tool calls.

Decided text can be taken in any amounts, so that a token's text and its part of a call are sent with the token.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Set

from inference_worker.worker.text.tool_calls.call_parser import ToolCallParser
from inference_worker.worker.text.tool_calls.markup import Span, SpanKind
from router.messages import ToolCallDelta, merge_tool_calls


class ToolCallSplitter:
    """Splitter of one choice's text. `choice` is its unique id, so that a resumed choice's calls keep their ids."""

    def __init__(self, parser: ToolCallParser, choice: str, tokens: Set[int]) -> None:
        self.tokens = tokens
        """Control tokens that are part of the markup, whose text must therefore be passed to `push`."""
        self.decided = 0
        """Number of characters that `take` can return."""
        self._parser = parser
        self._choice = choice
        self._spans: deque[Span] = deque()
        self._already_sent = 0
        """Undecided characters that the client already has."""

    @property
    def finished(self) -> bool:
        """Whether the choice must end, because the markup allows no text after the calls so far."""
        return self._parser.finished

    @property
    def all_complete(self) -> bool:
        """Whether the choice's text so far has tool calls, and the arguments of all of them are complete."""
        return self._parser.all_complete

    def push(self, text: str) -> None:
        """Add generated text to be parsed; `take` returns the parts that are decided to be text or calls."""
        self._keep(self._parser.push(text))

    def resume_after(self, text: str) -> None:
        """Add text that the client already has from an earlier attempt: it is parsed, and `take` does not return it."""
        self.push(text)
        self._already_sent = len(text) - self.decided
        self.take(self.decided)

    def finish(self) -> None:
        """End the text, so that the undecided characters are decided and can be taken."""
        self._keep(self._parser.finish())

    def take(self, length: int) -> tuple[str, list[ToolCallDelta] | None]:
        """Remove the next `length` decided characters of the raw text.

        Returns:
            The client's text, and the tool call deltas in these characters; `None` if there are none.
        """
        text: list[str] = []
        calls: list[ToolCallDelta] = []
        self.decided -= length
        while length:
            span = self._spans.popleft()
            if span.length > length:
                span, rest = span.split(length)
                self._spans.appendleft(rest)
            length -= span.length
            if span.kind is SpanKind.TEXT:
                text.append(span.text)
            elif span.kind is SpanKind.ARGUMENTS:
                calls.append(self._delta(span))
        return "".join(text), merge_tool_calls(calls) or None

    def _keep(self, spans: list[Span]) -> None:
        for span in spans:
            self._spans.append(span)
            self.decided += span.length
        if self._already_sent:
            known = min(self._already_sent, self.decided)
            self._already_sent -= known
            self.take(known)

    def _delta(self, span: Span) -> ToolCallDelta:
        id_ = call_id(self._choice, span.call) if span.name else ""
        return ToolCallDelta(index=span.call, id=id_, name=span.name, arguments=span.text)


def call_id(choice: str, index: int) -> str:
    """Return the id of tool call number `index` of a choice, the same on every worker and in every attempt.

    `choice` is a unique id of the choice.
    """
    return f"call_{hashlib.sha256(f'{choice}/{index}'.encode()).hexdigest()[:24]}"
