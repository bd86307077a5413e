"""How `/v1/completions` spells an answer: one body, or chunks of the same shape."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from gateway.answer import Collected, Head, bounded
from gateway.event_frames import ChunkFrames, compact, quoted
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

    async def events(self, generation: Generation) -> AsyncIterator[str]:
        """The stream; the last chunk of a choice has its finish reason. First chunks in order of index.

        One item a batch of `generation`.
        """
        frames = ChunkFrames(self.head.fields(KIND), usage=self.include_usage)
        opening = "".join(frames.choice(_choice(index, "")) for index in range(self.choices) if self.choices > 1)
        offsets = [0] * self.choices
        async for batch in generation.batches():
            text = ""
            for index, delta in batch:
                if delta.t or delta.lp or delta.f:
                    text += frames.choice(_choice(index, delta.t, delta.lp, offsets[index], delta.f))
                    offsets[index] += sum(len(token.chosen.text) for token in delta.lp or ())
            yield opening + text
            opening = ""
        if self.include_usage:
            yield frames.usage(CompletionUsage.of(generation.usage).model_dump())

    def _choice(self, index: int, choice: Collected) -> CompletionChoice:
        return CompletionChoice(
            index=index,
            text="".join(choice.text),
            logprobs=CompletionLogprobs.model_validate(_logprobs(choice.logprobs, 0)) if self.logprobs else None,
            finish_reason=cast(Literal["stop", "length", "content_filter"], choice.finish_reason),
        )


def _choice(
    index: int, text: str, logprobs: list[TokenLogprob] | None = None, offset: int = 0, finish: str | None = None
) -> str:
    written = compact(_logprobs(logprobs, offset)) if logprobs else "null"
    finish_reason = quoted(finish) if finish else "null"
    return f'{{"index":{index},"text":{quoted(text)},"logprobs":{written},"finish_reason":{finish_reason}}}'


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
