"""Sampling inside CUDA graphs yields the same tokens as the sampler."""

from __future__ import annotations

import importlib.util
from array import array
from typing import Any

import pytest
import torch

from inference_worker.engine.execution.decode_rows import DecodeRows
from inference_worker.engine.sampling.graph_sampling import Stage, sample, stage_of
from inference_worker.engine.sampling.sampler import Sampler
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams
from tests.fakes.host_uniform import uniform

KINDS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1e-6},
    {"temperature": 0.8},
    {"temperature": 1.7, "top_k": 5},
    {"temperature": 1.2, "top_p": 0.6},
    {"temperature": 0.9, "min_p": 0.2},
    {"temperature": 1.0, "top_k": 20, "top_p": 0.9, "min_p": 0.05},
]


def sequence(number: int, **sampling: Any) -> Sequence:
    known = 3 + number
    wanted = SamplingParams(**{"seed": number * 977, **sampling})
    return Sequence("r", number % 3, array("q", [5] * known), 2, wanted, 40, computed=known - 1)


@pytest.mark.parametrize("kinds", [KINDS[:2], KINDS[:3], KINDS], ids=["greedy", "drawn", "truncated"])
def test_equals_the_sampler(kinds: list[dict[str, Any]]) -> None:
    sequences = [sequence(i, **kinds[i % len(kinds)]) for i in range(28)]
    logits = torch.randn(28, 300, generator=torch.Generator().manual_seed(4)) * 3
    expected, _ = Sampler().sample(logits.clone(), sequences)
    rows = DecodeRows(28, 2, torch.device("cpu"))
    placed = rows.update(sequences)
    stage = stage_of(sequences)
    assert stage is not None
    tokens = sample(logits, rows.sampling(28), stage, uniform)
    assert tokens[placed].tolist() == expected
    # A later stage does no harm to rows that need less.
    assert sample(logits, rows.sampling(28), Stage.TRUNCATED, uniform)[placed].tolist() == expected


@pytest.mark.parametrize(
    "sampling",
    [
        {"logprobs": 0},
        {"logit_bias": {3: 1.0}},
        {"frequency_penalty": 0.1},
        {"presence_penalty": -0.1},
        {"repetition_penalty": 1.1},
        {"min_tokens": 30},
    ],
    ids=str,
)
def test_features_that_need_the_host_have_no_stage(sampling: dict[str, Any]) -> None:
    assert stage_of([sequence(1), sequence(2, **sampling)]) is None


def test_stages() -> None:
    assert [stage_of([sequence(1, **kind)]) for kind in KINDS] == [0, 0, 1, 2, 2, 2, 2]
    assert stage_of([sequence(i, **kind) for i, kind in enumerate(KINDS)]) is Stage.TRUNCATED


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="there are builds of Triton for Linux only")
def test_the_kernel_yields_the_same_numbers() -> None:
    from inference_worker.engine.sampling import uniform_kernel

    generator = torch.Generator().manual_seed(2)
    seeds = torch.randint(-(2**63), 2**63 - 1, (200,), generator=generator)
    choices = torch.randint(0, 2**31, (200,), generator=generator)
    positions = torch.randint(0, 2**40, (200,), generator=generator)
    assert torch.equal(uniform_kernel.uniform(seeds, choices, positions), uniform(seeds, choices, positions))
