"""Tests of the sampler: distributions, independence from the batch, and every parameter."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from inference_worker.engine.sampling.philox import uniform
from inference_worker.engine.sampling.sampler import Sampler
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams

VOCAB = 12
LOGITS = torch.linspace(-2, 2, VOCAB)[torch.tensor([3, 9, 0, 7, 11, 1, 5, 10, 2, 8, 6, 4])]


def row(
    prompt: tuple[int, ...] = (1, 2), generated: tuple[int, ...] = (), choice: int = 0, **sampling: Any
) -> Sequence:
    params = SamplingParams(**{"seed": 1, **sampling})
    stops = frozenset(params.stop_token_ids)
    return Sequence("r", choice, array("q", (*prompt, *generated)), len(prompt), params, 100, stops)


def sample(logits: Tensor, rows: list[Sequence]) -> list[int]:
    return Sampler().sample(logits.expand(len(rows), -1).clone(), rows)[0]


def draw_many(logits: Tensor, count: int = 6000, **sampling: Any) -> Counter[int]:
    """Sample once for each of many seeds."""
    return Counter(sample(logits, [row(seed=seed, **sampling) for seed in range(count)]))


def check_distribution(counts: Counter[int], expected: Tensor) -> None:
    """Chi-square; the bound is beyond p = 0.001 for up to 11 degrees of freedom (31.3)."""
    total = sum(counts.values())
    assert {token for token, share in enumerate(expected.tolist()) if share == 0}.isdisjoint(counts)
    wanted = expected * total
    statistic = sum((counts[token] - share) ** 2 / share for token, share in enumerate(wanted.tolist()) if share > 0)
    assert statistic < 31.3


def only(tokens: list[int]) -> Tensor:
    """The softmax of LOGITS over these tokens."""
    kept = torch.full((VOCAB,), float("-inf"))
    kept[tokens] = LOGITS[tokens]
    return kept.softmax(dim=0)


RANKED = LOGITS.argsort(descending=True).tolist()


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.0])
def test_temperature(temperature: float) -> None:
    check_distribution(draw_many(LOGITS, temperature=temperature), (LOGITS / temperature).softmax(dim=0))


def test_top_k() -> None:
    check_distribution(draw_many(LOGITS, top_k=3), only(RANKED[:3]))


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    shares = LOGITS.softmax(dim=0)[RANKED].cumsum(dim=0)
    assert shares[3] < 0.8 < shares[4]
    check_distribution(draw_many(LOGITS, top_p=0.8), only(RANKED[:5]))


def test_top_p_counts_within_top_k() -> None:
    within = LOGITS[RANKED[:4]].softmax(dim=0).cumsum(dim=0)
    assert within[1] < 0.7 < within[2]
    check_distribution(draw_many(LOGITS, top_k=4, top_p=0.7), only(RANKED[:3]))


def test_min_p_is_relative_to_the_likeliest() -> None:
    shares = LOGITS.softmax(dim=0)
    kept = [token for token in range(VOCAB) if shares[token] >= 0.3 * shares.max()]
    assert 1 < len(kept) < VOCAB
    check_distribution(draw_many(LOGITS, min_p=0.3), only(kept))


@pytest.mark.parametrize(
    "sampling", [{"temperature": 0.0}, {"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0}, {"temperature": 1e-300}]
)
def test_these_are_greedy(sampling: dict[str, Any]) -> None:
    assert set(draw_many(LOGITS, count=50, **sampling)) == {RANKED[0]}


@pytest.mark.parametrize("temperature", [1e-5, 1e-4, 1e-2, 100.0, 1e30])
@pytest.mark.parametrize("size", [1.0, 1e4, 1e30])
def test_extreme_numbers_still_give_tokens(temperature: float, size: float) -> None:
    sampling = {"temperature": temperature, "top_p": 0.9, "top_k": 8, "min_p": 0.01}
    drawn = draw_many(LOGITS * size, count=50, **sampling)
    assert set(drawn) <= set(RANKED[:8])
    if temperature <= 1e-2 or size > 1e30 * temperature:
        assert set(drawn) == {RANKED[0]}


def test_ties_keep_exactly_top_k() -> None:
    assert set(draw_many(torch.zeros(VOCAB), count=300, top_k=2)) == {0, 1}


def test_rows_of_nothing_but_minus_infinity_give_some_token() -> None:
    rows = [row(temperature=t, stop_token_ids=list(range(VOCAB)), min_tokens=3, top_p=0.5) for t in (0.0, 1.0)]
    assert all(0 <= token < VOCAB for token in sample(LOGITS, rows))


class TestAdjustments:
    """Greedy sampling from scores whose order the adjustment changes."""

    def pick(self, scores: dict[int, float], **kwargs: Any) -> int:
        logits = torch.full((VOCAB,), -5.0)
        for token, score in scores.items():
            logits[token] = score
        return sample(logits, [row(temperature=0.0, **kwargs)])[0]

    def test_bias(self) -> None:
        assert self.pick({3: 1.0}, logit_bias={4: 6.1}) == 4
        assert self.pick({3: 1.0}, logit_bias={4: 5.9}) == 3
        assert self.pick({3: 1.0, 4: 0.5}, logit_bias={3: -100.0}) == 4

    def test_presence_counts_once_and_generated_only(self) -> None:
        for generated, winner in (((), 3), ((3,), 4), ((3, 3), 4)):
            assert self.pick({3: 1.0, 4: 0.5}, generated=generated, presence_penalty=0.6) == winner
        assert self.pick({3: 1.0, 4: 0.5}, generated=(3, 3, 3), presence_penalty=0.4) == 3
        assert self.pick({3: 1.0, 4: 0.5}, prompt=(3,), presence_penalty=0.6) == 3

    def test_frequency_counts_every_time(self) -> None:
        for generated, winner in (((3,), 3), ((3, 3), 3), ((3, 3, 3), 4)):
            assert self.pick({3: 1.0, 4: 0.5}, generated=generated, frequency_penalty=0.2) == winner

    @pytest.mark.parametrize("where", [{"prompt": (3,)}, {"generated": (3,)}])
    def test_repetition_divides_what_is_positive_and_multiplies_what_is_negative(self, where: dict[str, Any]) -> None:
        assert self.pick({3: 1.0, 4: 0.6}, repetition_penalty=2.0, **where) == 4
        assert self.pick({3: 1.0, 4: 0.4}, repetition_penalty=2.0, **where) == 3
        assert self.pick({3: -1.0, 4: -1.9}, repetition_penalty=2.0, **where) == 4
        assert self.pick({3: -1.0, 4: -2.1}, repetition_penalty=2.0, **where) == 3

    def test_stop_tokens_are_masked_below_min_tokens(self) -> None:
        sampling = {"stop_token_ids": [3], "min_tokens": 2}
        for generated, winner in (((), 4), ((5,), 4), ((5, 5), 3)):
            assert self.pick({3: 1.0, 4: 0.5}, generated=generated, **sampling) == winner


class TestLogprobs:
    def test_logprobs_are_of_raw_scores_and_only_on_request(self) -> None:
        rows = [row(), row(logprobs=0), row(logprobs=3, temperature=0.0, logit_bias={0: 50.0})]
        tokens, logprobs = Sampler().sample(LOGITS.expand(3, -1).clone(), rows)
        raw = LOGITS.log_softmax(dim=0)
        assert logprobs[0] is None
        assert logprobs[1] is not None
        assert logprobs[2] is not None
        assert (logprobs[1].chosen.id, logprobs[1].top) == (tokens[1], [])
        assert tokens[2] == logprobs[2].chosen.id == 0
        assert logprobs[2].chosen.logprob == pytest.approx(raw[0].item())
        assert [candidate.id for candidate in logprobs[2].top] == RANKED[:3]
        assert [candidate.logprob for candidate in logprobs[2].top] == pytest.approx(raw[RANKED[:3]].tolist())

    def test_impossible_tokens_have_finite_ones(self) -> None:
        logits = torch.full((1, VOCAB), float("-inf"))
        logits[0, 5] = 1.0
        _, (entry,) = Sampler().sample(logits, [row(logprobs=20)])
        assert entry is not None
        assert [candidate.logprob for candidate in entry.top] == [0.0] + [-9999.0] * (VOCAB - 1)


params = st.fixed_dictionaries(
    {
        "seed": st.integers(-(2**63), 2**64),
        "temperature": st.sampled_from([0.0, 0.3, 1.0]),
        "top_k": st.sampled_from([0, 0, 5]),
        "top_p": st.sampled_from([1.0, 0.8]),
        "min_p": st.sampled_from([0.0, 0.1]),
        "presence_penalty": st.sampled_from([0.0, 0.5]),
        "frequency_penalty": st.sampled_from([0.0, -0.5]),
        "repetition_penalty": st.sampled_from([1.0, 1.3]),
        "logit_bias": st.sampled_from([{}, {3: 2.0}]),
        "logprobs": st.sampled_from([None, 2]),
        "min_tokens": st.sampled_from([0, 4]),
        "stop_token_ids": st.sampled_from([[], [4]]),
    }
)
rows = st.builds(
    lambda generated, choice, sampling: row(generated=tuple(generated), choice=choice, **sampling),
    st.lists(st.integers(0, VOCAB - 1), max_size=6),
    st.integers(0, 3),
    params,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, min_size=1, max_size=9), st.integers(0, 1000))
def test_a_row_is_sampled_alike_in_any_batch(batch: list[Sequence], seed: int) -> None:
    logits = torch.randn(len(batch), VOCAB, generator=torch.Generator().manual_seed(seed))
    together = Sampler().sample(logits.clone(), batch)
    for index, one in enumerate(batch):
        tokens, logprobs = Sampler().sample(logits[index : index + 1].clone(), [one])
        assert (tokens[0], logprobs[0]) == (together[0][index], together[1][index])


def test_large_vocabularies_are_sampled_alike_in_any_batch() -> None:
    """Beyond the sizes at which kernels split a row among threads."""
    logits = torch.randn(8, 50_000, generator=torch.Generator().manual_seed(0))
    batch = [row(seed=seed, top_p=0.95 if seed % 2 else 1.0) for seed in range(8)]
    together = Sampler().sample(logits.clone(), batch)[0]
    assert together == [Sampler().sample(logits[i : i + 1].clone(), [batch[i]])[0][0] for i in range(8)]


def test_choices_and_positions_have_different_random_numbers() -> None:
    many = [row(choice=choice, generated=(0,) * position) for choice in range(8) for position in range(8)]
    assert len(set(sample(torch.zeros(5000), many))) > 55


def test_parameters_are_kept_while_the_rows_stay() -> None:
    sampler, batch = Sampler(), [row(prompt=(0,), frequency_penalty=2.0, temperature=0.0)]
    logits = torch.tensor([[1.0, 0.5]])
    drawn = []
    for _ in range(3):
        (token,), _ = sampler.sample(logits.clone(), batch[:])
        batch[0].token_ids.append(token)
        drawn.append(token)
    assert drawn == [0, 1, 0]


def sorted_draw(scores: Tensor, number: float, p: SamplingParams) -> int:
    """The definition, by a full sort in float64."""
    scores = (scores - scores.max()) / p.temperature
    order = scores.argsort(descending=True, stable=True)
    kept = scores[order] >= torch.tensor(p.min_p).log()
    kept[p.top_k or len(kept) :] = False
    weights = torch.where(kept, scores[order].double().exp(), 0.0)
    before = weights.cumsum(0) - weights
    kept &= (before < p.top_p * weights.sum()) | (p.top_p >= 1)
    kept[0] = True
    weights = torch.zeros_like(weights).scatter_(0, order, torch.where(kept, weights, 0.0))
    cumulated = weights.cumsum(0)
    return int((cumulated > number * cumulated[-1]).int().argmax())


@pytest.mark.parametrize("flatness", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    "sampling", [{}, {"top_p": 0.5}, {"top_p": 0.99}, {"top_k": 64}, {"top_k": 700, "top_p": 0.9}, {"min_p": 0.01}]
)
def test_samples_equal_the_definition_at_any_truncation(flatness: float, sampling: dict[str, Any]) -> None:
    logits = torch.randn(12, 16384, generator=torch.Generator().manual_seed(1)) * 4 / flatness
    rows = [row(seed=seed, **sampling) for seed in range(12)]
    seeds, zeros = np.arange(12, dtype=np.uint64), np.zeros(12, np.uint64)
    numbers = uniform(seeds, zeros, zeros)
    expected = [sorted_draw(*one) for one in zip(logits, numbers, [r.sampling for r in rows], strict=True)]
    assert Sampler().sample(logits, rows)[0] == expected
