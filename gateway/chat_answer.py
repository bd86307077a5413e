"""How `/v1/chat/completions` spells an answer: one body, or chunks.

Chunks are made for every few tokens of every stream, so not by pydantic; tests hold them against the models in
`openai/`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from gateway.answer import Collected, Head, bounded
from gateway.event_frames import ChunkFrames, compact, quoted
from gateway.generation import Generation
from gateway.openai.chat_completions import (
    ChatAnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChoiceLogprobs,
)
from gateway.openai.usage import CompletionUsage
from router.messages import Delta, TokenAlternative, TokenLogprob, Usage

CHUNK = "chat.completion.chunk"
_ROLE = '{"role":"assistant","content":"","refusal":null}'


@dataclass(frozen=True)
class ChatAnswer:
    """The answer to one request."""

    head: Head
    n: int
    logprobs: bool
    include_usage: bool

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
        opening = "".join(frames.choice(_choice(index, _ROLE)) for index in range(self.n))
        async for batch in generation.batches():
            text = "".join(frames.choice(choice) for index, delta in batch for choice in _choices(index, delta))
            yield opening + text
            opening = ""
        if self.include_usage:
            yield frames.usage(CompletionUsage.of(generation.usage).model_dump())

    def _choice(self, index: int, choice: Collected) -> ChatChoice:
        logprobs = _logprobs(choice.logprobs) if self.logprobs else None
        return ChatChoice(
            index=index,
            message=ChatAnswerMessage(content="".join(choice.text), refusal=None),
            logprobs=ChoiceLogprobs.model_validate(logprobs) if logprobs else None,
            # The inbox lets no answer finish of which a choice has not.
            finish_reason=cast(Literal["stop", "length", "tool_calls", "content_filter"], choice.finish_reason),
        )


def _choices(index: int, delta: Delta) -> Iterator[str]:
    """A delta as the choices of chunks: its text, and its end."""
    if delta.t or delta.lp:
        yield _choice(index, f'{{"content":{quoted(delta.t)}}}', delta.lp)
    if delta.f:
        yield _choice(index, "{}", finish_reason=quoted(delta.f))


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
