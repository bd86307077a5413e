"""Parses an upstream provider's event stream and validates its known fields; ignores unknown fields.

Chunks of `/chat/completions` and `/completions` become the same `ChoiceDelta`s. Upstreams are not trusted: a field of
the wrong type, an unexpected choice index, a tool call out of order and text after the end of a choice are errors and
never forwarded.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args

import msgspec

from proxy.errors import (
    InvalidAnswer,
    RequestRefused,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamMisconfigured,
)
from router.messages import UNKNOWN_TOKEN_ID, FinishReason, TokenAlternative, TokenLogprob, ToolCallDelta

DONE = "[DONE]"
MAX_CALLS = 128
MAX_MESSAGE = 500
"""Maximum characters of an upstream's error message that are passed on."""

_FINISH_REASONS: frozenset[str] = frozenset(get_args(FinishReason))
_CALL_ID = re.compile(r"[A-Za-z0-9_\-]{1,64}")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_\-.]{1,64}")
_PARAM = re.compile(r"[A-Za-z0-9_\-.\[\]]{1,64}")

_Index = Annotated[int, msgspec.Meta(ge=0)]


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: _Index = 0
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Alternative(msgspec.Struct):
    token: str
    logprob: float


class _Token(_Alternative):
    top_logprobs: list[_Alternative] | None = None


class _Logprobs(msgspec.Struct):
    """Log probabilities of a chat (`content`) or a completion (the other fields)."""

    content: list[_Token] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


class _Choice(msgspec.Struct):
    index: _Index = 0
    delta: _Message | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Any = None
    error: Any = None


_CHUNKS = msgspec.json.Decoder(_Chunk)


@dataclass(frozen=True)
class ChoiceDelta:
    """The part of one choice's answer that an upstream event contains."""

    choice: int
    text: str
    logprobs: list[TokenLogprob] | None
    calls: list[ToolCallDelta] | None
    finish: FinishReason | None
    reasoning: str = ""
    """Reasoning that the upstream sends apart from the text."""

    @property
    def size(self) -> int:
        """Number of UTF-8 bytes of this delta's generated text, reasoning, function names and arguments."""
        calls = sum(len((call.name + call.arguments).encode()) for call in self.calls or ())
        return len(self.text.encode()) + len(self.reasoning.encode()) + calls


@dataclass
class _Progress:
    """State of one choice: the number of its calls, and whether it has ended."""

    calls: int = 0
    finished: bool = False


@dataclass
class StreamParser:
    """Validating parser of one upstream answer's event stream."""

    choices: list[_Progress] = field(default_factory=list)
    usage: Any = None
    """The last reported `usage`, unchecked."""

    @classmethod
    def of(cls, n: int) -> StreamParser:
        """Create the parser of one upstream answer's event stream, for `n` choices."""
        return cls([_Progress() for _ in range(n)])

    @property
    def finished(self) -> bool:
        """Whether the upstream has ended every choice of the answer."""
        return all(choice.finished for choice in self.choices)

    def parse(self, data: str) -> list[ChoiceDelta]:
        """Parse the data of one event of the upstream's stream.

        Return its choices' deltas, and keep a usage that it reports.

        Raises:
            UpstreamError: the event is an error, or is not valid in this answer.
        """
        try:
            chunk = _CHUNKS.decode(data)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise InvalidAnswer(f"an event that is no chunk: {error}") from error
        if chunk.error is not None:
            raise error_of(chunk.error, status=None)
        if chunk.usage is not None:
            self.usage = chunk.usage
        return [piece for choice in chunk.choices if (piece := self._piece(choice)) is not None]

    def _piece(self, choice: _Choice) -> ChoiceDelta | None:
        if choice.index >= len(self.choices):
            raise InvalidAnswer(f"choice {choice.index} of {len(self.choices)}")
        progress = self.choices[choice.index]
        message = choice.delta or _Message()
        text = (choice.text or "") + (message.content or "") + (message.refusal or "")
        reasoning = message.reasoning_content or message.reasoning or ""
        calls = [call for each in message.tool_calls or () if (call := _call(progress, each)) is not None]
        logprobs = _logprobs(choice.logprobs) if choice.logprobs else None
        finish = _finish(choice.finish_reason)
        if not (text or reasoning or calls or logprobs or finish):
            return None
        if progress.finished:
            raise InvalidAnswer(f"more of choice {choice.index} after its end")
        progress.finished = finish is not None
        return ChoiceDelta(choice.index, text, logprobs or None, calls or None, finish, reasoning)


def _finish(reason: str | None) -> FinishReason | None:
    if not reason:
        return None
    if reason not in _FINISH_REASONS:
        raise InvalidAnswer(f"finish reason {reason[:40]!r}")
    return reason  # type: ignore[return-value]  # one of them


def _call(progress: _Progress, call: _Call) -> ToolCallDelta | None:
    """Return the delta of a tool call; its name and id come once, and an invalid id is replaced by a generated one."""
    function = call.function or _Function()
    arguments = function.arguments or ""
    if call.index < progress.calls:
        return ToolCallDelta(index=call.index, arguments=arguments) if arguments else None
    if call.index > progress.calls or call.index >= MAX_CALLS:
        raise InvalidAnswer(f"call {call.index} after {progress.calls}")
    if not _TOOL_NAME.fullmatch(function.name or ""):
        raise InvalidAnswer("a call of a tool that has no name")
    progress.calls += 1
    id_ = call.id if _CALL_ID.fullmatch(call.id or "") else None
    return ToolCallDelta(
        index=call.index, id=id_ or f"call_{uuid.uuid4().hex}", name=function.name or "", arguments=arguments
    )


def _logprobs(logprobs: _Logprobs) -> list[TokenLogprob]:
    if logprobs.content is not None:
        return [
            TokenLogprob(
                _alternative(token.token, token.logprob),
                [_alternative(top.token, top.logprob) for top in token.top_logprobs or ()],
            )
            for token in logprobs.content
        ]
    tokens, chosen = logprobs.tokens or [], logprobs.token_logprobs or []
    tops = logprobs.top_logprobs or [None] * len(tokens)
    if not len(tokens) == len(chosen) == len(tops):
        raise InvalidAnswer("logprobs of different lengths")
    return [
        TokenLogprob(_alternative(token, logprob), [_alternative(*item) for item in (top or {}).items()])
        for token, logprob, top in zip(tokens, chosen, tops, strict=True)
        if logprob is not None
    ]


def _alternative(token: str, logprob: float) -> TokenAlternative:
    return TokenAlternative(UNKNOWN_TOKEN_ID, token, logprob)


# Errors


def error_of(error: Any, *, status: int | None, retry_after: int | None = None) -> UpstreamError:
    """Convert an upstream's error object to an exception.

    `status` is that of its response, `None` for an event of a stream.
    """
    fields = error if isinstance(error, dict) else {}
    code, kind = fields.get("code"), fields.get("type")
    if status is None:  # in an event some servers put the status into the code
        is_status = isinstance(code, int) and not isinstance(code, bool)
        status = code if is_status else 400 if kind == "invalid_request_error" else 500
    if status == 429:
        return UpstreamBusy("it answered 429", retry_after)
    if status in (401, 403, 404, 407):
        return UpstreamMisconfigured(f"it answered {status}")
    if status in (400, 413, 422):
        return _refused(fields, code)
    return UpstreamFailed(f"it answered {status}")


def _refused(fields: dict[Any, Any], code: object) -> RequestRefused:
    text, param = fields.get("message"), fields.get("param")
    message = _sanitise(text) if isinstance(text, str) else ""
    too_long = code == "context_length_exceeded" or "maximum context length" in message
    named = param if isinstance(param, str) and _PARAM.fullmatch(param) else None
    return RequestRefused(message or "The model's provider refuses this request.", param=named, too_long=too_long)


def _sanitise(text: str) -> str:
    """Return the text's printable characters on one line of at most `MAX_MESSAGE` characters."""
    plain = "".join(character if character.isprintable() else " " for character in text[: 4 * MAX_MESSAGE])
    words = " ".join(plain.split())
    return words if len(words) <= MAX_MESSAGE else words[: MAX_MESSAGE - 3] + "..."
