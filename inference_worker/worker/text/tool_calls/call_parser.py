"""Parses a model's generated text, character by character, into text for the client, arguments of calls, and markup.

Every character of the raw text belongs to exactly one span, in order. The result depends on the characters only, never
on how they were split, and each is decided as early as possible: text is held back while it may be markup; a call is
recognised once its function is known (and one of those allowed) and its arguments begin. Otherwise it is text.

A call that becomes invalid after that keeps the arguments so far, and the rest is text; `all_complete` is then false.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from inference_worker.worker.text.tool_calls.call_automata import CallAutomaton, JsonCall, NamedCall
from inference_worker.worker.text.tool_calls.json_scanner import SPACE
from inference_worker.worker.text.tool_calls.markup import Markup, Span, SpanKind

MAX_HELD = 64 * 1024
"""Maximum characters held back; beyond it they are text."""


class ToolCallParser:
    """Incremental parser of one choice's text into spans of text, arguments and markup; `names` may be called."""

    def __init__(self, markup: Markup, names: Set[str], *, several: bool = True, only_calls: bool = False) -> None:
        """Without `several`, it is `finished` after the first call. With `only_calls`, a remainder is markup."""
        self.calls = 0
        self.finished = False
        self._broken = False
        self.markup = markup
        self._names = names
        self._allow_several = several
        self._only_calls = only_calls
        self._step: Callable[[str], bool] = self._content
        self._spans: list[Span] = []
        self._held: list[str] = []
        self._marker = ""
        """The end of the held characters, if it may begin a marker."""
        self._has_text = False
        """Whether there was text since the last call."""
        self._in_list = False
        self._call: CallAutomaton = JsonCall(names)
        self._call_start = 0
        """Index in `_held` where the call begins."""
        self._call_sent = False
        """Whether the beginning of the call was output."""
        self._incomplete = False
        """Whether a call was output whose arguments have not ended."""

    @property
    def all_complete(self) -> bool:
        """Whether the text parsed so far has tool calls, and the arguments of all of them are complete."""
        return self.calls > 0 and not (self._broken or self._incomplete)

    def push(self, text: str) -> list[Span]:
        """Add generated text; return the spans (text, arguments, markup) now decided, of it and of held-back text.

        Once the parser is `finished`, further text is ignored.
        """
        at = 0
        while at < len(text) and not self.finished:
            if skipped := self._skip(text, at):
                at += skipped
                continue
            while not self._step(text[at]):
                pass
            at += 1
            if len(self._held) > MAX_HELD:
                self._fail()
        return self._take_spans()

    def _skip(self, text: str, at: int) -> int:
        """Consume text that is certainly plain text or arguments, the bulk of it, at once; return its length."""
        if self._held:
            return 0
        if self._step == self._in_call:
            count = self._call.skip(text, at)
            self._add(Span(count, SpanKind.ARGUMENTS, text[at : at + count], self.calls - 1))
            return count
        if self._step != self._content or (self.markup.bare and not self._has_text):
            return 0
        end = text.find(self.markup.opener[0], at) if self.markup.opener else -1
        words = (text[at:end] if end >= 0 else text[at:]).rstrip(SPACE)
        self._has_text = self._has_text or bool(words)
        self._add(Span(len(words), SpanKind.TEXT, words))
        return len(words)

    def finish(self) -> list[Span]:
        """End the text, and return the spans of the characters that were held back."""
        after_call = self.calls and not self._has_text
        only_space = all(character in SPACE for character in self._held)
        begun = self._step in (self._before_call, self._in_call)  # a further call, cut off before it was recognised
        leftover = self._step in (self._between, self._closer) or (after_call and (only_space or begun))
        self._flush(SpanKind.MARKUP if leftover or self._only_calls else SpanKind.TEXT)
        return self._take_spans()

    # Outside of calls. A step returns whether it consumed the character; if not, the next step gets it again.

    def _content(self, character: str) -> bool:
        if self._marked(self.markup.opener, character):
            if self._marker == self.markup.opener:
                self._begin_calls()
            return True
        if self._marker:
            return self._fail()
        if character in SPACE:
            return self._hold(character)
        if self.markup.bare and character in "{[" and not (self._has_text or self.calls):
            self._begin_calls()
            return False
        self._held.append(character)
        self._flush(SpanKind.TEXT)
        return True

    def _marked(self, marker: str, character: str) -> bool:
        """Consume `character` if it begins or continues `marker`; return whether it does."""
        if not marker.startswith(self._marker + character):
            return False
        self._marker += character
        return self._hold(character)

    def _hold(self, character: str) -> bool:
        """Hold `character` back until it is decided; return that it was consumed."""
        self._held.append(character)
        return True

    def _begin_calls(self) -> None:
        self._marker, self._in_list = "", False
        self._step = self._before_call

    # Calls

    def _before_call(self, character: str) -> bool:
        if character in SPACE:
            return self._hold(character)
        if character == "[" and not self._in_list:
            self._held.append(character)
            self._in_list = True
            return True
        if character == "{":
            return self._begin_call(JsonCall(self._names))
        if self.markup.named and not self._in_list and (character.isalnum() or character in "_-"):
            return self._begin_call(NamedCall(self._names))
        return self._fail()

    def _begin_call(self, call: CallAutomaton) -> bool:
        self._call, self._call_start, self._call_sent = call, len(self._held), False
        self._step = self._in_call
        return False

    def _in_call(self, character: str) -> bool:
        call = self._call
        had_ended = call.arguments_end >= 0
        if not call.push(character):
            return self._fail()
        if self._call_sent:
            in_arguments = call.arguments_at >= 0 and not had_ended
            self._add(
                Span(1, SpanKind.ARGUMENTS, character, self.calls - 1) if in_arguments else Span(1, SpanKind.MARKUP)
            )
        else:
            self._held.append(character)
            if call.name and (call.arguments_at >= 0 or call.done):
                self._flush_call()
        self._incomplete = self._call_sent and call.arguments_end < 0 and not call.done
        if call.done:
            self._step = self._between
            self.finished = not self._allow_several
        return True

    def _flush_call(self) -> None:
        """Output the held characters as a call, with its first arguments, or all of them if the name came last."""
        call, at = self._call, self._call_start
        begin = at + call.arguments_at
        if call.arguments_at >= 0:
            end = at + call.arguments_end if call.arguments_end >= 0 else len(self._held)
            arguments = "".join(self._held[begin:end])
        else:  # a call without arguments gets an empty object, in place of its last character
            begin, end, arguments = len(self._held) - 1, len(self._held), "{}"
        after = len(self._held) - end
        self._held.clear()
        self._add(Span(begin, SpanKind.MARKUP))
        self._add(Span(end - begin, SpanKind.ARGUMENTS, arguments, self.calls, call.name))
        self._add(Span(after, SpanKind.MARKUP))
        self.calls += 1
        self._call_sent, self._has_text = True, False

    def _between(self, character: str) -> bool:
        if character in SPACE:
            return self._hold(character)
        if self._in_list and character == "]":
            self._held.append(character)
            self._flush(SpanKind.MARKUP)
            self._step = self._closer
            return True
        if character == "," if self._in_list else character in self.markup.separator:
            self._held.append(character)
            self._step = self._before_call
            return True
        if self._in_list:
            return self._fail()
        self._step = self._closer
        return False

    def _closer(self, character: str) -> bool:
        if self._marked(self.markup.closer, character):
            if self._marker == self.markup.closer:
                self._marker = ""
                self._flush(SpanKind.MARKUP)
                self._step = self._content
            return True
        if self._marker:
            return self._fail()
        if character in SPACE:
            return self._hold(character)
        self._step = self._content
        return False

    # Decisions

    def _fail(self) -> bool:
        """Output the held characters as text; the current character is examined again."""
        self._broken = self._broken or self._incomplete
        self._marker = ""
        self._flush(SpanKind.TEXT)
        self._step = self._content
        return False

    def _flush(self, kind: SpanKind) -> None:
        held = "".join(self._held)
        self._held.clear()
        if kind is SpanKind.TEXT and held:
            self._has_text = True
        self._add(Span(len(held), kind, held if kind is SpanKind.TEXT else ""))

    def _add(self, span: Span) -> None:
        last = self._spans[-1] if self._spans else None
        if last is not None and (last.kind, last.call) == (span.kind, span.call) and not span.name:
            self._spans[-1] = Span(last.length + span.length, last.kind, last.text + span.text, last.call, last.name)
        elif span.length:
            self._spans.append(span)

    def _take_spans(self) -> list[Span]:
        spans, self._spans = self._spans, []
        return spans
