"""How `/v1/chat/completions` spells an answer: one body, or chunks.

Chunks are plain dicts, built for every few tokens of every stream; tests hold them against the models in `openai/`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from gateway.answer import Collected, Head, bounded
from gateway.generation import Generation
from gateway.openai.chat_completions import (
    ChatAnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChoiceLogprobs,
)
from gateway.openai.usage import CompletionUsage
from router.messages import TokenAlternative, TokenLogprob, Usage

CHUNK = "chat.completion.chunk"


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

    async def chunks(self, generation: Generation) -> AsyncIterator[dict[str, Any]]:
        """The frames of the stream: roles of all choices in order of index, text, an empty delta at each end, usage."""
        opened = False
        async for event in generation:
            if not opened:
                opened = True
                for index in range(self.n):
                    yield self._chunk(index, {"role": "assistant", "content": "", "refusal": None})
            delta = event.delta
            if delta.t or delta.lp:
                yield self._chunk(event.index, {"content": delta.t}, delta.lp)
            if delta.f:
                yield self._chunk(event.index, {}, finish_reason=delta.f)
        if self.include_usage:
            usage = CompletionUsage.of(generation.usage).model_dump()
            yield self.head.frame(CHUNK, [], usage=usage)

    def _choice(self, index: int, choice: Collected) -> ChatChoice:
        logprobs = _logprobs(choice.logprobs) if self.logprobs else None
        return ChatChoice(
            index=index,
            message=ChatAnswerMessage(content="".join(choice.text), refusal=None),
            logprobs=ChoiceLogprobs.model_validate(logprobs) if logprobs else None,
            # The inbox lets no answer finish of which a choice has not.
            finish_reason=cast(Literal["stop", "length", "tool_calls", "content_filter"], choice.finish_reason),
        )

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        logprobs: list[TokenLogprob] | None = None,
        finish_reason: str | None = None,
    ) -> dict[str, Any]:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": _logprobs(logprobs) if logprobs else None,
            "finish_reason": finish_reason,
        }
        more = {"usage": None} if self.include_usage else {}
        return self.head.frame(CHUNK, [choice], **more)


def _logprobs(tokens: list[TokenLogprob]) -> dict[str, Any]:
    content = [
        _alternative(token.chosen) | {"top_logprobs": [_alternative(top) for top in token.top]} for token in tokens
    ]
    return {"content": content, "refusal": None}


def _alternative(token: TokenAlternative) -> dict[str, Any]:
    return {"token": token.text, "logprob": bounded(token.logprob), "bytes": list(token.text.encode())}
