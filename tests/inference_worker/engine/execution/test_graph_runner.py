"""Tests of captured decode steps without a device: the same tokens as single eager steps.

The capture is a stand-in that runs the step again; all else (rows, differences, sampling, several steps per batch) is
the code that runs on CUDA.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention_backend import AttentionInputs, AttentionMetadata
from inference_worker.engine.batch import Batch, StepResult
from inference_worker.engine.engine import Engine
from inference_worker.engine.execution import graph_runner
from inference_worker.engine.execution.decode_graphs import Work
from inference_worker.engine.execution.fault_isolation import IsolatingRunner
from inference_worker.engine.execution.graph_runner import GraphRunner
from inference_worker.engine_protocol import GenerationRequest
from tests.fakes.host_uniform import uniform
from tests.fakes.tiny_model import tiny_engine
from tests.inference_worker.generation import finish, generate, ids, prompts, request


class IdleRowsAttention(ReferenceAttention):
    """The reference backend for steps with idle rows: these are left out and get zeros."""

    def forward(self, inputs: AttentionInputs, metadata: AttentionMetadata) -> Tensor:
        if metadata.max_query_length > 1:
            return super().forward(inputs, metadata)
        live = metadata.slot_mapping >= 0
        assert (metadata.sequence_lengths[~live] == 0).all()
        used = replace(
            metadata,
            query_start=torch.arange(int(live.sum()) + 1),
            sequence_lengths=metadata.sequence_lengths[live],
            block_tables=metadata.block_tables[live],
            slot_mapping=metadata.slot_mapping[live],
        )
        out = torch.zeros_like(inputs.query)
        present = replace(inputs, query=inputs.query[live], key=inputs.key[live], value=inputs.value[live])
        out[live] = super().forward(present, used)
        return out


class StepRecorder:
    """Records the allowed and the computed steps of each batch."""

    def __init__(self, runner: GraphRunner) -> None:
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


def graph_engine(max_decode_steps: int = 5, **settings: Any) -> tuple[Engine, StepRecorder]:
    engine = tiny_engine(max_num_seqs=11, **settings)
    inner = engine.runner
    assert isinstance(inner, IsolatingRunner)
    inner.runner.attention = IdleRowsAttention(inner.runner.attention.cache)
    engine.scheduler.limits = replace(engine.scheduler.limits, max_decode_steps=max_decode_steps)
    engine.runner = recorder = StepRecorder(GraphRunner(inner, engine.scheduler.limits, capture, uniform))
    return engine, recorder


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches run all steps that they may."""
    monkeypatch.setattr(graph_runner, "MAX_BATCH_DURATION", 60.0)


def requests() -> list[GenerationRequest]:
    """Greedy, random and truncated sampling; several choices; stop tokens; one with penalties, one with logprobs."""
    kinds: list[dict[str, Any]] = [
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
def test_the_same_tokens(settings: dict[str, Any]) -> None:
    expected = generate(tiny_engine(max_num_seqs=11, **settings), requests())
    engine, recorder = graph_engine(**settings)
    outcome = generate(engine, requests())
    assert ids(outcome) == ids(expected)
    assert {key: choice.reason for key, choice in outcome.items()} == {k: c.reason for k, c in expected.items()}
    assert [choice.reason for choice in outcome.values()].count("stop") > 1
    assert (5, 5) in recorder.steps
    if "num_kv_blocks" in settings and settings.get("block_size") != 1:
        assert engine.load().preemptions > 0


def test_requests_come_and_go_between_batches() -> None:
    """Rows are reassigned, filled from the end, and updated with what they missed."""
    expected = ids(generate(tiny_engine(), requests()))
    engine, _ = graph_engine(max_decode_steps=3)
    outcome: dict[tuple[str, int], list[int]] = {}
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


def test_a_sequence_ends_at_its_stop_token_within_a_batch_of_steps() -> None:
    stop = generate(tiny_engine(), [request("a", [5, 6, 7])])["a", 0].ids[3]
    engine, recorder = graph_engine(max_decode_steps=8)
    choice = generate(engine, [request("a", [5, 6, 7], stop_token_ids=[stop])])["a", 0]
    assert (choice.ids[-1], choice.reason) == (stop, "stop")
    assert recorder.steps[-1] == (8, 8)
    assert engine.load().generation_tokens == len(choice.ids)


def test_blocks_for_further_steps_are_freed_for_another_request() -> None:
    engine, _ = graph_engine(max_decode_steps=8, num_kv_blocks=5)
    engine.add(request("a", [5] * 6, max_tokens=8))
    engine.step()
    engine.step()
    (first,) = engine.scheduler.running
    assert (first.computed, len(first.block_table)) == (7, 4)
    engine.add(request("b", [6] * 6, max_tokens=2))
    engine.step()
    assert [sequence.request for sequence in engine.scheduler.running] == ["a", "b"]
    assert len(first.block_table) == 2
    assert len(finish(engine)["a", 0].ids) == 5
    assert engine.load().preemptions == 0


def test_the_time_decides_how_many_steps_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_runner, "MAX_BATCH_DURATION", 1e-9)
    engine, recorder = graph_engine()
    generate(engine, [request("a", [5, 6, 7])])
    assert {run for _, run in recorder.steps} == {1}
