"""How `/v1/chat/completions` spells an answer: one body, or chunks.

Chunks are made for every few tokens of every stream, so not by pydantic; tests hold them against the models in
`openai/`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gateway.answer import Collected, Head, bounded
from gateway.event_frames import ChunkFrames, compact, quoted
from gateway.generation import Generation
from gateway.openai.chat_completions import (
    ChatAnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChoiceLogprobs,
)
from gateway.openai.messages import FunctionCall, ToolCall
from gateway.openai.usage import CompletionUsage
from router.messages import Delta, FinishReason, TokenAlternative, TokenLogprob, ToolCallDelta, Usage, joined_calls

CHUNK = "chat.completion.chunk"
_ROLE = '{"role":"assistant","content":"","refusal":null}'
_ROLE_OF_CALLER = '{"role":"assistant","content":null,"refusal":null}'
"""Where there may be calls: a message that has only them has no content, and text can still follow."""


@dataclass(frozen=True)
class ChatAnswer:
    """The answer to one request. `may_call`: tools were offered; `named`: one of them had to be called."""

    head: Head
    n: int
    logprobs: bool
    include_usage: bool
    may_call: bool = False
    named: bool = False

    def body(self, choices: Sequence[Collected], usage: Usage) -> ChatCompletion:
        """The whole answer."""
        return ChatCompletion(
            id=self.head.id,
            created=self.head.created,
            model=self.head.model,
            service_tier=self.head.service_tier.value,
            system_fingerprint=self.head.system_fingerprint,
            choices=[self._choice(index, choice) for index, choice in enumerate(choices)],
            usage=CompletionUsage.of(usage),
        )

    async def events(self, generation: Generation) -> AsyncIterator[str]:
        """The stream: roles of all choices in order of index, text, an empty delta at each end, usage.

        One item a batch of `generation`.
        """
        frames = ChunkFrames(self.head.fields(CHUNK), usage=self.include_usage)
        role = _ROLE_OF_CALLER if self.may_call else _ROLE
        opening = "".join(frames.choice(_choice(index, role)) for index in range(self.n))
        async for batch in generation.batches():
            text = "".join(frames.choice(choice) for index, delta in batch for choice in self._choices(index, delta))
            yield opening + text
            opening = ""
        if self.include_usage:
            yield frames.usage(CompletionUsage.of(generation.usage).model_dump())

    def _choice(self, index: int, choice: Collected) -> ChatChoice:
        logprobs = _logprobs(choice.logprobs) if self.logprobs else None
        calls = _calls(choice.calls) or None
        text = "".join(choice.text)
        return ChatChoice(
            index=index,
            message=ChatAnswerMessage(content=text or (None if calls else ""), refusal=None, tool_calls=calls),
            logprobs=ChoiceLogprobs.model_validate(logprobs) if logprobs else None,
            # The inbox lets no answer finish of which a choice has not.
            finish_reason=self._finish_reason(cast(FinishReason, choice.finish_reason)),
        )

    def _choices(self, index: int, delta: Delta) -> Iterator[str]:
        """A delta as the choices of chunks: its text, its calls (a chunk each, as OpenAI does), and its end."""
        logprobs = delta.lp
        if delta.t or (logprobs and not delta.calls):
            yield _choice(index, f'{{"content":{quoted(delta.t)}}}' if delta.t else "{}", logprobs)
            logprobs = None
        for call in delta.calls or ():
            yield _choice(index, _call_delta(call), logprobs)
            logprobs = None
        if delta.f:
            yield _choice(index, "{}", finish_reason=quoted(self._finish_reason(delta.f)))

    def _finish_reason(self, reason: FinishReason) -> FinishReason:
        """To OpenAI, calling the named tool is no reason: the model had no choice."""
        return "stop" if self.named and reason == "tool_calls" else reason


def _calls(deltas: Sequence[ToolCallDelta]) -> list[ToolCall]:
    """Whole calls, in order of index, of which each delta is a part."""
    in_order = joined_calls(sorted(deltas, key=lambda delta: delta.i))
    return [ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=call.args)) for call in in_order]


def _call_delta(call: ToolCallDelta) -> str:
    arguments = f'"arguments":{quoted(call.args)}'
    if not call.name:
        return f'{{"tool_calls":[{{"index":{call.i},"function":{{{arguments}}}}}]}}'
    head = f'"index":{call.i},"id":{quoted(call.id)},"type":"function"'
    return f'{{"tool_calls":[{{{head},"function":{{"name":{quoted(call.name)},{arguments}}}}}]}}'


def _choice(index: int, delta: str, logprobs: list[TokenLogprob] | None = None, finish_reason: str = "null") -> str:
    written = compact(_logprobs(logprobs)) if logprobs else "null"
    return f'{{"index":{index},"delta":{delta},"logprobs":{written},"finish_reason":{finish_reason}}}'


def _logprobs(tokens: list[TokenLogprob]) -> dict[str, Any]:
    content = [
        _alternative(token.chosen) | {"top_logprobs": [_alternative(top) for top in token.top]} for token in tokens
    ]
    return {"content": content, "refusal": None}


def _alternative(token: TokenAlternative) -> dict[str, Any]:
    return {"token": token.text, "logprob": bounded(token.logprob), "bytes": list(token.text.encode())}
