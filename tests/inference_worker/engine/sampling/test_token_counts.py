"""Tests of token counts: updated counts equal recomputed ones."""

from __future__ import annotations

from array import array
from collections import Counter

from inference_worker.engine.sampling.token_counts import TokenCountCache, TokenCounts
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams


def sequence(*tokens: int, prompt: int = 2) -> Sequence:
    return Sequence("r", 0, array("q", tokens), prompt, SamplingParams(seed=0), 1000)


def counted(counts: TokenCounts) -> dict[int, float]:
    return dict(zip(counts.token_ids.tolist(), counts.generated.tolist(), strict=True))


def test_counts_grow_with_the_sequence() -> None:
    one, histories = sequence(7, 8, 8), TokenCountCache()
    assert counted(histories.of([one])[0]) == {7: 0, 8: 1}
    for token in range(400):
        one.token_ids.append(token % 150)
        (counts,) = histories.of([one])
        assert counted(counts) == {7: 0, 8: 0, **Counter(one.generated_ids())}


def test_sequences_that_left_are_recounted() -> None:
    one, other, histories = sequence(1, 2, 3), sequence(1, 2, 4), TokenCountCache()
    before = histories.of([one, other])[1]
    assert histories.of([other]) == [before]
    one.token_ids.append(3)
    assert counted(histories.of([other, one])[1]) == {1: 0, 2: 0, 3: 2}
