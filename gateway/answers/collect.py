"""Waits for a whole answer: what a client gets that does not stream; and keeps the best of several candidates."""

from __future__ import annotations

from gateway.answers.answer import Collected
from gateway.jobs.generation import Generation


async def collect(generation: Generation) -> list[Collected]:
    """All choices, in order of index.

    Raises:
        GenerationError: there is no whole answer.
    """
    choices = [Collected() for job in generation.jobs for _ in range(job.n)]
    async for batch in generation.batches():
        for index, delta in batch:
            choice = choices[index]
            choice.text.append(delta.text)
            choice.ids.extend(delta.token_ids)
            choice.logprobs.extend(delta.logprobs or [])
            choice.calls.extend(delta.tool_calls or [])
            choice.finish_reason = delta.finish_reason
    return choices


async def collect_vectors(generation: Generation) -> list[bytes]:
    """The vectors of an embedding job, in order of its inputs; raises as `collect` does."""
    vectors: dict[int, bytes] = {}
    async for batch in generation.vectors():
        for embedded in batch:
            vectors.update(enumerate(embedded.vectors, start=embedded.start))
    return [vectors[index] for index in sorted(vectors)]  # all are there: else it had not finished


def best(choices: list[Collected], candidates: int, wanted: int) -> list[Collected]:
    """Of each prompt's `candidates` the `wanted` ones with the highest log probability a token, the best first.

    Needs their log probabilities if there are more than wanted.
    """
    if candidates == wanted:
        return choices
    groups = [choices[start : start + candidates] for start in range(0, len(choices), candidates)]
    return [choice for group in groups for choice in sorted(group, key=_likelihood, reverse=True)[:wanted]]


def _likelihood(choice: Collected) -> float:
    tokens = choice.logprobs
    return sum(token.chosen.logprob for token in tokens) / len(tokens) if tokens else 0.0
