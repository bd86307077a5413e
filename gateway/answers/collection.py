"""Collects the whole answer of a generation for a response without streaming, and selects the best candidates."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.answers.answer_parts import CollectedChoice
from gateway.answers.image_answer import DrawnImage
from gateway.answers.score_answer import CandidateScore
from gateway.jobs.generation import Generation
from router.messages import Tokenised


async def collect(generation: Generation) -> list[CollectedChoice]:
    """Wait for the end of a generation; return its choices, whole, in order of index.

    Raises:
        GenerationError: The generation did not finish.
    """
    choices = [CollectedChoice() for job in generation.jobs for _ in range(job.n)]
    async for batch in generation.batches():
        for index, delta in batch:
            choices[index].take(delta)
    return choices


async def collect_vectors(generation: Generation) -> list[bytes]:
    """Wait for the end of an embedding job; return one float32 vector per input, in order. Raises `GenerationError`."""
    vectors: dict[int, bytes] = {}
    async for batch in generation.vectors():
        for embedded in batch:
            vectors.update(enumerate(embedded.vectors, start=embedded.start))
    return [vectors[index] for index in sorted(vectors)]  # complete, because the generation has finished


async def collect_scores(generation: Generation) -> list[CandidateScore]:
    """Wait for the end of a score job; return the scores of its candidates, in order. Raises `GenerationError`."""
    scores: dict[int, CandidateScore] = {}
    async for batch in generation.scores():
        for scored in batch:
            steps: Sequence[list[float] | None] = scored.step_scores or [None] * len(scored.scores)
            scores.update(zip(scored.indexes, map(CandidateScore, scored.scores, steps), strict=True))
    return [scores[index] for index in sorted(scores)]  # complete, because the generation has finished


async def collect_tokens(generation: Generation) -> Tokenised:
    """Wait for the end of a tokenisation job; return the tokens of its prompt. Raises `GenerationError`."""
    (tokenised,) = [each async for batch in generation.tokenised() for each in batch]  # one: it has finished
    return tokenised


async def collect_images(generation: Generation) -> list[DrawnImage]:
    """Wait for the end of an image job; return its images in order of index. Raises `GenerationError`."""
    images: dict[int, DrawnImage] = {}
    async for batch in generation.images():
        for drawn in batch:
            images.update(
                (index, DrawnImage(png, drawn.revised_prompt))
                for index, png in zip(drawn.indexes, drawn.images, strict=True)
            )
    return [images[index] for index in sorted(images)]  # complete, because the generation has finished


def best(choices: list[CollectedChoice], candidates: int, n: int) -> list[CollectedChoice]:
    """Return the best `n` of each prompt's `candidates` choices, by mean log probability per token, best first.

    The choices must have log probabilities if `candidates` is more than `n`.
    """
    if candidates == n:
        return choices
    groups = [choices[start : start + candidates] for start in range(0, len(choices), candidates)]
    return [choice for group in groups for choice in sorted(group, key=_mean_logprob, reverse=True)[:n]]


def _mean_logprob(choice: CollectedChoice) -> float:
    tokens = choice.logprobs
    return sum(token.chosen.logprob for token in tokens) / len(tokens) if tokens else 0.0
