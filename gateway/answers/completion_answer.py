"""How `/v1/completions` spells an answer: one body, or chunks of the same shape."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from gateway.answers.answer import Collected, Head, Wishes, bounded, ending, prompt_logprobs
from gateway.answers.event_frames import ChunkFrames, compact, quoted
from gateway.jobs.echoed_prompt import EchoedPrompt
from gateway.jobs.generation import Generation
from gateway.openai.completions import Completion, CompletionChoice, CompletionLogprobs
from gateway.openai.usage import CompletionUsage
from router.messages import Delta, TokenLogprob, Usage

KIND = "text_completion"


class _Row(NamedTuple):
    """One token in the lists of log probabilities; the first one of a prompt has none."""

    name: str
    length: int
    logprob: float | None
    likeliest: dict[str, float] | None


@dataclass(frozen=True)
class CompletionAnswer:
    """The answer to one request; `n` counts the choices of each of its prompts."""

    head: Head
    n: int
    wishes: Wishes

    def body(self, choices: Sequence[Collected], prompts: Sequence[EchoedPrompt], usage: Usage) -> Completion:
        """The whole answer."""
        return Completion(
            id=self.head.id,
            created=self.head.created,
            model=self.head.model,
            service_tier=self.head.service_tier.value,
            system_fingerprint=self.head.system_fingerprint,
            choices=[self._choice(index, choice, prompts[index // self.n]) for index, choice in enumerate(choices)],
            usage=CompletionUsage.of(usage),
        )

    async def events(self, generation: Generation) -> AsyncIterator[str]:
        """The stream; the last chunk of a choice has its finish reason. First chunks in order of index.

        One item a batch of `generation`: the last has the usage, too.
        """
        frames = ChunkFrames(self.head.fields(KIND), usage=self.wishes.usage)
        choices = self.n * len(generation.jobs)
        opening = "".join(frames.choice(_choice(index, "")) for index in range(choices) if choices > 1)
        stream = [_Stream(self) for _ in range(choices)]
        async for batch in generation.batches():
            text = "".join(
                frames.choice(choice)
                for index, delta in batch
                for choice in stream[index].chunks(index, delta, generation.prompts[index // self.n])
            )
            yield opening + text + ending(frames, self.wishes, generation)
            opening = ""

    def _choice(self, index: int, choice: Collected, prompt: EchoedPrompt) -> CompletionChoice:
        wishes, echo = self.wishes, self.wishes.echo
        rows = [*(self.prompt_rows(prompt) if echo else ()), *self.rows(choice.logprobs)]
        alternatives = wishes.prompt_logprobs
        return CompletionChoice(
            index=index,
            text=(prompt.text if echo else "") + "".join(choice.text),
            logprobs=CompletionLogprobs.model_validate(_spelled(rows, 0)) if wishes.logprobs is not None else None,
            finish_reason=cast(Literal["stop", "length", "content_filter"], choice.finish_reason),
            token_ids=choice.ids if wishes.token_ids else None,
            prompt_token_ids=prompt.ids if wishes.token_ids else None,
            prompt_logprobs=None if alternatives is None else prompt_logprobs(prompt, alternatives),
        )

    def prompt_rows(self, prompt: EchoedPrompt) -> Iterator[_Row]:
        """The prompt's tokens in the lists of log probabilities."""
        first = f"token_id:{prompt.ids[0]}" if self.wishes.tokens_as_ids else prompt.first
        yield _Row(first, len(prompt.first), None, None)
        yield from self.rows(prompt.logprobs)

    def rows(self, tokens: Iterable[TokenLogprob]) -> Iterator[_Row]:
        """Tokens in the lists of log probabilities; the chosen one is always among the likeliest, as OpenAI has it."""
        name, most = self.wishes.name, self.wishes.logprobs or 0
        for token in tokens:
            named = [*token.top[:most], token.chosen]
            likeliest = {name(candidate): bounded(candidate.logprob) for candidate in named}
            yield _Row(name(token.chosen), len(token.chosen.text), bounded(token.chosen.logprob), likeliest)


class _Stream:
    """One choice as it is streamed."""

    def __init__(self, answer: CompletionAnswer) -> None:
        self._answer = answer
        self._offset = 0
        self._begun = False

    def chunks(self, index: int, delta: Delta, prompt: EchoedPrompt) -> Iterator[str]:
        """A delta as the choices of chunks; what is wanted of the prompt comes before the first."""
        wishes = self._answer.wishes
        if not self._begun and (wishes.echo or wishes.token_ids):
            extra = f',"prompt_token_ids":{compact(prompt.ids)}' if wishes.token_ids else ""
            rows = self._answer.prompt_rows(prompt) if wishes.echo else ()
            yield _choice(index, prompt.text if wishes.echo else "", self._spell(rows), extra=extra)
        self._begun = True
        if delta.text or delta.logprobs or delta.finish_reason or (wishes.token_ids and delta.token_ids):
            extra = f',"token_ids":{compact(delta.token_ids)}' if wishes.token_ids else ""
            logprobs = self._spell(self._answer.rows(delta.logprobs or ()))
            yield _choice(index, delta.text, logprobs, finish=delta.finish_reason, extra=extra)

    def _spell(self, rows: Iterable[_Row]) -> str:
        if self._answer.wishes.logprobs is None or not (listed := list(rows)):
            return "null"
        offset = self._offset
        self._offset += sum(row.length for row in listed)
        return compact(_spelled(listed, offset))


def _choice(index: int, text: str, logprobs: str = "null", *, finish: str | None = None, extra: str = "") -> str:
    reason = quoted(finish) if finish else "null"
    return f'{{"index":{index},"text":{quoted(text)},"logprobs":{logprobs},"finish_reason":{reason}{extra}}}'


def _spelled(rows: Sequence[_Row], offset: int) -> dict[str, Any]:
    """The lists of log probabilities; the first token's text begins at character `offset`."""
    offsets = []
    for row in rows:
        offsets.append(offset)
        offset += row.length
    return {
        "tokens": [row.name for row in rows],
        "token_logprobs": [row.logprob for row in rows],
        "top_logprobs": [row.likeliest for row in rows],
        "text_offset": offsets,
    }
