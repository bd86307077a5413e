"""How `/v1/completions` spells an answer: one body, or chunks of the same shape."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from gateway.answer import Collected, Head, bounded
from gateway.generation import Generation
from gateway.openai.completions import Completion, CompletionChoice, CompletionLogprobs
from gateway.openai.usage import CompletionUsage
from router.messages import TokenLogprob, Usage

KIND = "text_completion"


@dataclass(frozen=True)
class CompletionAnswer:
    """The answer to one request; `choices` counts those of all its prompts."""

    head: Head
    choices: int
    logprobs: bool
    include_usage: bool

    def body(self, choices: Sequence[Collected], usage: Usage) -> Completion:
        """The whole answer."""
        return Completion(
            id=self.head.id,
            created=self.head.created,
            model=self.head.model,
            system_fingerprint=self.head.system_fingerprint,
            choices=[self._choice(index, choice) for index, choice in enumerate(choices)],
            usage=CompletionUsage.of(usage),
        )

    async def chunks(self, generation: Generation) -> AsyncIterator[dict[str, Any]]:
        """The frames of the stream; the last one of a choice has its finish reason. First frames in order of index."""
        offsets = [0] * self.choices
        opened = False
        async for event in generation:
            if not opened and self.choices > 1:
                for index in range(self.choices):
                    yield self._chunk(index, "", None)
            opened = True
            delta = event.delta
            if not (delta.t or delta.lp or delta.f):
                continue
            logprobs = _logprobs(delta.lp, offsets[event.index]) if delta.lp else None
            offsets[event.index] += sum(len(token.chosen.text) for token in delta.lp or [])
            yield self._chunk(event.index, delta.t, logprobs, delta.f)
        if self.include_usage:
            yield self.head.frame(KIND, [], usage=CompletionUsage.of(generation.usage).model_dump())

    def _choice(self, index: int, choice: Collected) -> CompletionChoice:
        return CompletionChoice(
            index=index,
            text="".join(choice.text),
            logprobs=CompletionLogprobs.model_validate(_logprobs(choice.logprobs, 0)) if self.logprobs else None,
            finish_reason=cast(Literal["stop", "length", "content_filter"], choice.finish_reason),
        )

    def _chunk(
        self, index: int, text: str, logprobs: dict[str, Any] | None, finish_reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
        more = {"usage": None} if self.include_usage else {}
        return self.head.frame(KIND, [choice], **more)


def _logprobs(tokens: list[TokenLogprob], offset: int) -> dict[str, Any]:
    """The chosen token is always among the alternatives, as OpenAI has it."""
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token.chosen.text)
    return {
        "tokens": [token.chosen.text for token in tokens],
        "token_logprobs": [bounded(token.chosen.logprob) for token in tokens],
        "top_logprobs": [
            {candidate.text: bounded(candidate.logprob) for candidate in [*token.top, token.chosen]} for token in tokens
        ],
        "text_offset": offsets,
    }
