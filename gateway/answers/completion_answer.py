"""Formats answers of `/v1/completions` (`text_completion`) as one body or as chunks of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from gateway.answers.answer_parts import AnswerMetadata, AnswerOptions, CollectedChoice, bounded, prompt_logprobs
from gateway.answers.event_frames import ChunkFrames, compact, quoted
from gateway.jobs.generation import Generation
from gateway.jobs.prompt_echo import EchoedPrompt
from gateway.openai.completions import Completion, CompletionChoice, CompletionLogprobs
from gateway.openai.usage import CompletionUsage
from router.messages import Delta, TokenLogprob, Usage, UsagePart

KIND = "text_completion"


class _Row(NamedTuple):
    """One token in the lists of log probabilities; a prompt's first token has none."""

    name: str
    length: int
    logprob: float | None
    most_likely: dict[str, float] | None


@dataclass(frozen=True)
class CompletionAnswer:
    """Formats one completion's answer, as one body or as stream chunks; `n` is the number of choices per prompt."""

    metadata: AnswerMetadata
    n: int
    options: AnswerOptions

    def body(
        self,
        choices: Sequence[CollectedChoice],
        prompts: Sequence[EchoedPrompt],
        usage: Usage,
        parts: Sequence[UsagePart] = (),
    ) -> Completion:
        """Return the body of a whole completion, from all choices, the echo of each of `prompts`, and the usage.

        `parts`: the usage of the steps before the answer, by model.
        """
        return Completion(
            **self.metadata.fields(KIND),
            choices=[self._choice(index, choice, prompts[index // self.n]) for index, choice in enumerate(choices)],
            usage=CompletionUsage.of(usage, parts),
        )

    async def events(self, generation: Generation) -> AsyncIterator[str]:
        """Yield a completion's stream: first chunks by index, text, a last chunk with finish reason per choice, usage.

        Each item has the event frames of one batch of `generation`; usage, if requested, is in the last item.
        """
        frames = ChunkFrames(self.metadata.fields(KIND), usage=self.options.usage)
        choices = self.n * len(generation.jobs)
        opening = "".join(frames.choice(_choice(index, "")) for index in range(choices) if choices > 1)
        streams = [_ChoiceStream(self) for _ in range(choices)]
        async for batch in generation.batches():
            text = "".join(
                frames.choice(choice)
                for index, delta in batch
                for choice in streams[index].chunks(index, delta, generation.prompts[index // self.n])
            )
            yield opening + text + self.options.usage_chunk(frames, generation)
            opening = ""

    def _choice(self, index: int, choice: CollectedChoice, prompt: EchoedPrompt) -> CompletionChoice:
        options, echo = self.options, self.options.echo
        rows = [*(self.prompt_rows(prompt) if echo else ()), *self.rows(choice.logprobs)]
        return CompletionChoice(
            index=index,
            text=(prompt.text if echo else "") + "".join(choice.text),
            logprobs=CompletionLogprobs.model_validate(_logprob_lists(rows, 0))
            if options.logprobs is not None
            else None,
            finish_reason=cast(Literal["stop", "length", "content_filter"], choice.finish_reason),
            token_ids=choice.ids if options.token_ids else None,
            prompt_token_ids=prompt.ids if options.token_ids else None,
            prompt_logprobs=prompt_logprobs(prompt, options.prompt_logprobs),
        )

    def prompt_rows(self, prompt: EchoedPrompt) -> Iterator[_Row]:
        """Yield the rows of `logprobs` of an echoed prompt, one per token; the first has no log probability."""
        first = f"token_id:{prompt.ids[0]}" if self.options.tokens_as_ids else prompt.first
        yield _Row(first, len(prompt.first), None, None)
        yield from self.rows(prompt.logprobs)

    def rows(self, tokens: Iterable[TokenLogprob]) -> Iterator[_Row]:
        """Yield the rows of `logprobs` of generated tokens, one each; the likely tokens include the sampled one."""
        name, count = self.options.name, self.options.logprobs or 0
        for token in tokens:
            candidates = [*token.top[:count], token.chosen]
            most_likely = {name(candidate): bounded(candidate.logprob) for candidate in candidates}
            yield _Row(name(token.chosen), len(token.chosen.text), bounded(token.chosen.logprob), most_likely)


class _ChoiceStream:
    """Formatter of one choice of a stream; tracks its text offset."""

    def __init__(self, answer: CompletionAnswer) -> None:
        self._answer = answer
        self._offset = 0
        self._begun = False

    def chunks(self, index: int, delta: Delta, prompt: EchoedPrompt) -> Iterator[str]:
        """Yield the choice's part of a delta's chunks (JSON).

        Requested parts of the prompt come before the first delta.
        """
        options = self._answer.options
        if not self._begun and (options.echo or options.token_ids):
            extra = f',"prompt_token_ids":{compact(prompt.ids)}' if options.token_ids else ""
            rows = self._answer.prompt_rows(prompt) if options.echo else ()
            yield _choice(index, prompt.text if options.echo else "", self._format(rows), extra=extra)
        self._begun = True
        if delta.text or delta.logprobs or delta.finish_reason or (options.token_ids and delta.token_ids):
            extra = f',"token_ids":{compact(delta.token_ids)}' if options.token_ids else ""
            logprobs = self._format(self._answer.rows(delta.logprobs or ()))
            yield _choice(index, delta.text, logprobs, finish=delta.finish_reason, extra=extra)

    def _format(self, rows: Iterable[_Row]) -> str:
        if self._answer.options.logprobs is None or not (listed := list(rows)):
            return "null"
        offset = self._offset
        self._offset += sum(row.length for row in listed)
        return compact(_logprob_lists(listed, offset))


def _choice(index: int, text: str, logprobs: str = "null", *, finish: str | None = None, extra: str = "") -> str:
    reason = quoted(finish) if finish else "null"
    return f'{{"index":{index},"text":{quoted(text)},"logprobs":{logprobs},"finish_reason":{reason}{extra}}}'


def _logprob_lists(rows: Sequence[_Row], offset: int) -> dict[str, Any]:
    """Return OpenAI's lists of log probabilities; the first token's text begins at character `offset`."""
    offsets = []
    for row in rows:
        offsets.append(offset)
        offset += row.length
    return {
        "tokens": [row.name for row in rows],
        "token_logprobs": [row.logprob for row in rows],
        "top_logprobs": [row.most_likely for row in rows],
        "text_offset": offsets,
    }
