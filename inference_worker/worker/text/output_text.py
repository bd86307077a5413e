"""Converts the token events of one choice to text that is safe to send: whole characters, no part of a stop string.

A token is released when all of its text is final: whole characters, not part of a possible stop string, and not
undecided between reasoning, text and a tool call. Its id and log probability are released with it, so the text that a
client has is always exactly that of the ids it was sent: text is never retracted, never billed before it is delivered,
and a redelivered job can resume from the ids alone. Stop strings and tool calls are looked for in the answer only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference_worker.engine_protocol import PositionLogprobs, TokenEvent
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.detokenizer import Detokenizer
from inference_worker.worker.text.logprobs import token_logprob
from inference_worker.worker.text.reasoning.splitter import ReasoningSplitter
from inference_worker.worker.text.stop_strings import StopStrings
from inference_worker.worker.text.tool_calls.call_splitter import ToolCallSplitter
from router.messages import FinishReason, SamplingParams, TextOptions, TokenLogprob, ToolCallDelta


@dataclass(frozen=True)
class Release:
    """Tokens of a choice that may be sent now, from position `start` on, with their text and tool call deltas."""

    start: int
    ids: list[int]
    text: str
    calls: list[ToolCallDelta] | None = None
    logprobs: list[TokenLogprob] | None = None
    finish: FinishReason | None = None
    stopped_by: str | int | None = None
    reasoning: str = ""


@dataclass
class _Held:
    """Tokens not yet released, oldest first, and their raw text."""

    tokens: deque[tuple[int, PositionLogprobs | None, int]] = field(default_factory=deque)
    """Id, log probabilities, and length of `text` at the token's end, or -1 if that is within a character."""
    text: str = ""
    read: int = 0
    """Characters of `text` already searched for tool calls."""


class OutputText:
    """Converter of one choice's tokens to text; holds tokens back until their text is final."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        sampling: SamplingParams,
        options: TextOptions,
        delivered: Sequence[int] = (),
        calls: ToolCallSplitter | None = None,
        *,
        start: int | None = None,
        reasoning: ReasoningSplitter | None = None,
    ) -> None:
        """Begin a choice, or resume it after the ids in `delivered`, which the client already has.

        `reasoning` separates the reasoning from the answer, and `calls` finds tool calls in the answer; `None` if there
        can be none. `start` is the next token's position if that is not the number of `delivered` ids.
        """
        self._calls = calls
        self._reasoning = reasoning
        self._reasoned = 0
        """Number of leading tokens that are reasoning or its markup."""
        self._hidden = tokenizer.controls.ids if options.skip_special_tokens else frozenset()
        if calls is not None:
            self._hidden -= calls.tokens
        self._tokenizer = tokenizer
        self._sampling = sampling
        self._options = options
        self._detokenizer = Detokenizer()
        self._stops = StopStrings(options.stop)
        self._held = _Held()
        self._start = len(delivered) if start is None else start
        self._position = 0
        self.finished = False
        for token_id in delivered:
            self._add(token_id, None)
        answer = self._held.text if reasoning is None else self._skip_reasoning(reasoning)
        if calls is not None:
            calls.resume_after(answer)
        self._held = _Held()

    @property
    def position(self) -> int:
        """Position in the choice's output of the next token to release."""
        return self._start

    @property
    def held_ids(self) -> list[int]:
        """Ids of the tokens that are held back, as their text is not final yet."""
        return [id_ for id_, _, _ in self._held.tokens]

    @property
    def reasoning_tokens(self) -> int:
        """Number of leading tokens of the choice, released or not, that are reasoning or the markup around it."""
        return self._reasoned

    def push(self, event: TokenEvent) -> Release | None:
        """Add the tokens of one engine event; return the tokens whose text is final, with that text, to be sent now.

        The last release has the finish reason. `None` if no token can be released, or if the choice has ended.
        """
        if self.finished:
            return None
        for index, token_id in enumerate(event.token_ids):
            logprobs = event.logprobs[index] if event.logprobs else None
            stop = self._add(token_id, logprobs, hidden=self._is_hidden_stop(event, index))
            if stop is not None:
                return self._finish("stop", stop)
            if self._last_call_ended(len(self._held.text) - self._stops.held_back):
                return self._finish("stop", None)
        if event.finish_reason is not None:
            return self._finish(event.finish_reason, self._reported_stop(event.stop_token))
        return self._release(self._safe_length())

    def _is_hidden_stop(self, event: TokenEvent, index: int) -> bool:
        is_stop = event.stop_token is not None and index == len(event.token_ids) - 1
        return is_stop and not self._options.include_stop_str_in_output

    def _reported_stop(self, token: int | None) -> int | None:
        # As in vLLM, `stop_reason` is null if the model's own end of sequence token ended the text.
        return token if token in self._sampling.stop_token_ids else None

    def _add(self, token_id: int, logprobs: PositionLogprobs | None, *, hidden: bool = False) -> str | None:
        """Add one token. If it completes a stop string, cut the text there and return the stop string."""
        text = self._detokenizer.push(b"" if hidden else self._data(token_id))
        answer = text if self._reasoning is None else self._split(self._reasoning, text)
        before = len(self._held.text) + len(text) - len(answer)
        stop = self._match(answer)
        if stop is not None:
            self._held.text = self._cut(before, text, stop)
        else:
            self._held.text += text
        whole = len(self._held.text) if self._detokenizer.between_characters else -1
        self._held.tokens.append((token_id, logprobs, whole))
        self._position += 1
        return stop[0] if stop else None

    def _data(self, token_id: int) -> bytes:
        marks = self._reasoning is not None and not self._reasoning.answers and token_id in self._reasoning.tokens
        return b"" if token_id in self._hidden and not marks else self._tokenizer.token_data(token_id)

    def _split(self, reasoning: ReasoningSplitter, text: str) -> str:
        """Add a token's text to the reasoning, and the token to its number of tokens; return the text of the answer."""
        reasoned = reasoning.reasons
        answer = reasoning.push(text)
        if reasoned or reasoning.reasons:
            self._reasoned = self._position + 1
        return answer

    def _skip_reasoning(self, reasoning: ReasoningSplitter) -> str:
        """Remove the reasoning that the client already has; return the text of the answer that it has."""
        _, length = reasoning.take(reasoning.decided)
        reasoning.mark_sent()
        return self._held.text[length:] if reasoning.answers else ""

    def _match(self, text: str) -> tuple[str, int] | None:
        # As in vLLM, text before `min_tokens` can't match a stop string.
        return self._stops.push(text) if self._position >= self._sampling.min_tokens else None

    def _cut(self, before: int, text: str, stop: tuple[str, int]) -> str:
        matched, needed = stop
        end = before + needed - (0 if self._options.include_stop_str_in_output else len(matched))
        return (self._held.text + text)[: max(0, end)]  # a provider's text may have ended within a stop string

    def _last_call_ended(self, safe: int) -> bool:
        """Parse tool calls up to `safe`. If no further call is allowed, cut the text there and return true."""
        if self._calls is None or (self._reasoning is not None and not self._reasoning.answers):
            return False
        begin = self._answer_begin
        self._calls.push(self._held.text[max(begin, self._held.read) : safe])
        self._held.read = safe
        if self._calls.finished:
            self._held.text = self._held.text[: begin + self._calls.decided]
        return self._calls.finished

    @property
    def _answer_begin(self) -> int:
        """Number of characters of the held text before the answer, as far as they are decided."""
        return 0 if self._reasoning is None else self._reasoning.decided

    def _safe_length(self) -> int:
        begin = self._answer_begin
        if self._reasoning is not None and not self._reasoning.answers:
            return begin
        return len(self._held.text) - self._stops.held_back if self._calls is None else begin + self._calls.decided

    def _release(self, safe: int) -> Release | None:
        """Release as many tokens as end between characters within the first `safe` characters of the text."""
        for count in range(len(self._held.tokens), 0, -1):
            if 0 <= self._held.tokens[count - 1][2] <= safe:
                return self._pop(count)
        return None

    def _finish(self, reason: FinishReason, stopped_by: str | int | None) -> Release:
        self.finished = True
        if self._reasoning is not None:
            self._reasoning.finish()
        if self._calls is not None:
            self._calls.push(self._held.text[max(self._answer_begin, self._held.read) :])
            self._calls.finish()
            reason = "tool_calls" if reason == "stop" and self._calls.all_complete else reason
        return self._pop(len(self._held.tokens), reason, stopped_by)

    def _pop(self, count: int, finish: FinishReason | None = None, stopped_by: str | int | None = None) -> Release:
        held = self._held
        popped = [held.tokens.popleft() for _ in range(count)]
        length = len(held.text) if finish else popped[-1][2]
        text, held.text = held.text[:length], held.text[length:]
        reasoning, calls = "", None
        if self._reasoning is not None:
            reasoning, before = self._reasoning.take(length)
            text = text[before:]
        if self._calls is not None:
            held.read = max(0, held.read - length)
            text, calls = self._calls.take(len(text))
        if held.tokens:
            held.tokens = deque((id_, lp, max(-1, whole - length)) for id_, lp, whole in held.tokens)
        start, self._start = self._start, self._start + count
        logprobs = [token_logprob(self._tokenizer, lp) for _, lp, _ in popped if lp is not None] or None
        return Release(start, [id_ for id_, _, _ in popped], text, calls, logprobs, finish, stopped_by, reasoning)
