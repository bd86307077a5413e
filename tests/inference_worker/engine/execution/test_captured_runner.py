"""Captured decode steps, without a device: the same tokens as step by step, whatever happens between visits.

The capture is a stand-in that runs the step again; all else (rows, differences, sampling, several steps at a visit) is
what runs on CUDA.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention_backend import AttentionMetadata
from inference_worker.engine.batch import Batch, StepResult
from inference_worker.engine.engine import Engine
from inference_worker.engine.execution import captured_runner
from inference_worker.engine.execution.captured_runner import CapturedRunner
from inference_worker.engine.execution.decode_graphs import Work
from inference_worker.engine_protocol import GenerationRequest
from tests.fakes.host_uniform import uniform
from tests.fakes.tiny_model import tiny_engine
from tests.inference_worker.generation import finish, generate, ids, prompts, request


class RestingAttention(ReferenceAttention):
    """The reference, for steps with rows at rest: they are left out and get zeros."""

    def forward(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, metadata: AttentionMetadata, **how
    ) -> Tensor:
        if metadata.max_query_length > 1:
            return super().forward(layer, query, key, value, metadata, **how)
        live = metadata.slot_mapping >= 0
        assert (metadata.sequence_lengths[~live] == 0).all()
        used = replace(
            metadata,
            query_start=torch.arange(int(live.sum()) + 1),
            sequence_lengths=metadata.sequence_lengths[live],
            block_tables=metadata.block_tables[live],
            slot_mapping=metadata.slot_mapping[live],
        )
        out = torch.zeros_like(query)
        out[live] = super().forward(layer, query[live], key[live], value[live], used, **how)
        return out


class Visits:
    """Notes how many steps were granted and run."""

    def __init__(self, runner: CapturedRunner) -> None:
        self.runner = runner
        self.steps: list[tuple[int, int]] = []

    def execute(self, batch: Batch) -> StepResult:
        result = self.runner.execute(batch)
        self.steps.append((batch.steps, max(map(len, result.token_ids), default=0)))
        return result


def capture(work: Work) -> Work:
    """As on CUDA: run twice, then recorded."""
    work()
    work()
    return work


def captured_engine(max_decode_steps: int = 5, **settings: object) -> tuple[Engine, Visits]:
    engine = tiny_engine(max_num_seqs=11, **settings)
    inner = engine.runner
    inner.runner.attention = RestingAttention(inner.runner.attention.cache)
    engine.scheduler.limits = replace(engine.scheduler.limits, max_decode_steps=max_decode_steps)
    engine.runner = Visits(CapturedRunner(inner, engine.scheduler.limits, capture, uniform))
    return engine, engine.runner


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Visits take all steps that they are granted."""
    monkeypatch.setattr(captured_runner, "VISIT_SECONDS", 60.0)


def requests() -> list[GenerationRequest]:
    """Greedy, drawn and cut; several choices; stop tokens; one that wants penalties, one log probabilities."""
    kinds: list[dict[str, object]] = [
        {},
        {"temperature": 0.9},
        {"temperature": 1.1, "top_k": 9, "top_p": 0.8},
        {"temperature": 0.7, "min_p": 0.1, "n": 3},
        {"temperature": 1.3, "ignore_eos": False, "seed": -(2**40)},
        {"temperature": 0.8, "min_tokens": 3, "stop_token_ids": list(range(3, 24))},
        {"temperature": 0.8, "frequency_penalty": 0.4, "max_tokens": 5},
        {"logprobs": 2, "max_tokens": 3},
    ]
    many = [kinds[i % len(kinds)] for i in range(20)]
    return [
        request(f"r{i}", prompt, **{"max_tokens": 4 + i, **kind})
        for i, (prompt, kind) in enumerate(zip(prompts(20, seed=8, longest=30), many, strict=True))
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_num_batched_tokens": 7},
        {"num_kv_blocks": 16, "max_model_len": 60},
        {"num_kv_blocks": 16, "max_model_len": 60, "enable_prefix_caching": False},
        {"block_size": 1, "num_kv_blocks": 128, "max_model_len": 60},
    ],
    ids=str,
)
def test_the_same_tokens(settings: dict[str, object]) -> None:
    expected = generate(tiny_engine(max_num_seqs=11, **settings), requests())
    engine, visits = captured_engine(**settings)
    outcome = generate(engine, requests())
    assert ids(outcome) == ids(expected)
    assert {key: choice.reason for key, choice in outcome.items()} == {k: c.reason for k, c in expected.items()}
    assert [choice.reason for choice in outcome.values()].count("stop") > 1
    assert (5, 5) in visits.steps
    if "num_kv_blocks" in settings and settings.get("block_size") != 1:
        assert engine.load().preemptions > 0


def test_requests_come_and_go_between_visits() -> None:
    """Rows are given away, filled from the end, and told again what they missed."""
    expected = ids(generate(tiny_engine(), requests()))
    engine, _ = captured_engine(max_decode_steps=3)
    outcome: dict = {}
    for index, one in enumerate(requests()):
        engine.add(one)
        for event in engine.step():
            if event.request == "r4" and index > 8:
                engine.abort("r4")
            outcome.setdefault((event.request, event.choice), []).extend(event.token_ids)
    for key, choice in finish(engine).items():
        outcome.setdefault(key, []).extend(choice.ids)
    for key, tokens in outcome.items():
        assert tokens == expected[key][: len(tokens)]
        assert key[0] == "r4" or len(tokens) == len(expected[key])


def test_a_visit_ends_for_a_sequence_at_its_stop_token() -> None:
    stop = generate(tiny_engine(), [request("a", [5, 6, 7])])["a", 0].ids[3]
    engine, visits = captured_engine(max_decode_steps=8)
    choice = generate(engine, [request("a", [5, 6, 7], stop_token_ids=[stop])])["a", 0]
    assert (choice.ids[-1], choice.reason) == (stop, "stop")
    assert visits.steps[-1] == (8, 8)
    assert engine.load().generation_tokens == len(choice.ids)


def test_blocks_beyond_what_is_known_are_given_back() -> None:
    engine, _ = captured_engine(max_decode_steps=5)
    for i in range(4):
        engine.add(request(f"r{i}", [5 + i] * 6, max_tokens=30))
    while engine.has_work():
        engine.step()
        for sequence in engine.scheduler.running:
            assert len(sequence.block_table) == engine.scheduler.blocks.blocks_for(sequence.computed)


def test_the_time_decides_how_many_steps_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_runner, "VISIT_SECONDS", 1e-9)
    engine, visits = captured_engine()
    generate(engine, [request("a", [5, 6, 7])])
    assert {run for _, run in visits.steps} == {1}
