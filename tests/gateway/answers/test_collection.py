"""Whole answers are collected from batches, and the best candidates are selected by mean log probability."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from gateway.answers.answer_parts import CollectedChoice
from gateway.answers.collection import best, collect, collect_images, collect_vectors
from gateway.answers.image_answer import DrawnImage
from router.messages import Delta, Drawn, Embedded, TokenAlternative, TokenLogprob


def delta(text: str, *, finish_reason: Any = None, logprob: float | None = None) -> Delta:
    logprobs = None if logprob is None else [TokenLogprob(TokenAlternative(1, text, logprob), [])]
    return Delta(
        job_id="j", attempt_id="a", start=0, token_ids=[1], text=text, finish_reason=finish_reason, logprobs=logprobs
    )


def generation(batches: list[Any], n: int = 1) -> Any:
    async def iterate() -> AsyncIterator[Any]:
        for batch in batches:
            yield batch

    return SimpleNamespace(jobs=[SimpleNamespace(n=n)], batches=iterate, vectors=iterate, images=iterate)


async def test_deltas_are_joined_by_choice() -> None:
    batches = [
        [(0, delta("a")), (1, delta("x", logprob=-1.0))],
        [],
        [(1, delta("y", logprob=-2.0, finish_reason="length")), (0, delta("b", finish_reason="stop"))],
    ]
    first, second = await collect(generation(batches, n=2))
    assert ("".join(first.text), first.ids, first.finish_reason) == ("ab", [1, 1], "stop")
    assert ("".join(second.text), second.finish_reason) == ("xy", "length")
    assert [each.chosen.logprob for each in second.logprobs] == [-1.0, -2.0]


async def test_vectors_are_returned_in_order_of_the_inputs() -> None:
    late = Embedded(job_id="j", attempt_id="a", start=1, vectors=[b"1", b"2"], tokens=2)
    early = Embedded(job_id="j", attempt_id="a", start=0, vectors=[b"0"], tokens=1)
    assert await collect_vectors(generation([[late], [early]])) == [b"0", b"1", b"2"]


async def test_images_are_returned_in_order() -> None:
    late = Drawn(job_id="j", attempt_id="a", start=1, images=[b"1", b"2"])
    early = Drawn(job_id="j", attempt_id="a", start=0, images=[b"0"], revised_prompt="other")
    expected = [DrawnImage(b"0", "other"), DrawnImage(b"1"), DrawnImage(b"2")]
    assert await collect_images(generation([[late], [early]])) == expected


def test_the_best_candidates_of_each_prompt_are_kept_best_first() -> None:
    def choice(*logprobs: float) -> CollectedChoice:
        return CollectedChoice(logprobs=[TokenLogprob(TokenAlternative(1, "", each), []) for each in logprobs])

    poor, good, middle, other = choice(-3.0), choice(-1.0, -1.0), choice(-2.0), choice(-9.0)
    assert best([poor, good, middle, other, other, other], 3, 2) == [good, middle, other, other]
    assert best([poor, good], 2, 2) == [poor, good]
