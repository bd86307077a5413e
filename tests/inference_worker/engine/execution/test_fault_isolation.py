"""Tests of fault isolation: which requests fail if a batch can't be computed."""

from __future__ import annotations

from array import array

import pytest
import torch

from inference_worker.engine.batch import Batch, BlockCopy, ScheduledSequence, StepResult
from inference_worker.engine.execution.fault_isolation import IsolatingRunner
from inference_worker.engine.sequence import Sequence
from inference_worker.errors import NativeError
from router.messages import SamplingParams


class FragileRunner:
    """Samples each sequence's name as a number; fails on batches with a guilty one."""

    def __init__(self, guilty: set[int]) -> None:
        self.guilty = guilty
        self.computed: list[list[int]] = []
        self.copied: list[list[BlockCopy]] = []

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        self.copied.append(copies)

    def compute(self, entries: list[ScheduledSequence]) -> StepResult:
        names = [int(entry.sequence.request) for entry in entries]
        self.computed.append(names)
        if self.guilty & set(names):
            raise RuntimeError("no")
        return StepResult([[name] for name in names], [None] * len(names))


def run(count: int, guilty: set[int]) -> tuple[StepResult, FragileRunner]:
    runner = FragileRunner(guilty)
    sequences = [Sequence(str(i), 0, array("q", [1]), 1, SamplingParams(seed=0), 1) for i in range(count)]
    batch = Batch([ScheduledSequence(one, 0, 1) for one in sequences], [BlockCopy(0, 1)])
    return IsolatingRunner(runner).execute(batch), runner  # type: ignore[arg-type]


def test_a_good_batch_is_computed_once() -> None:
    result, runner = run(5, set())
    assert (result.token_ids, result.failed) == ([[0], [1], [2], [3], [4]], frozenset())
    assert len(runner.computed) == 1


def test_failing_requests_are_isolated_and_order_is_kept() -> None:
    result, runner = run(7, {2, 6})
    assert result.token_ids == [[0], [1], [], [3], [4], [5], []]
    assert result.failed == {"2", "6"}
    assert runner.copied == [[BlockCopy(0, 1)]], "copies are not repeated"


def test_a_single_failing_request() -> None:
    result, _ = run(1, {0})
    assert (result.token_ids, result.failed) == ([[]], {"0"})


def test_an_empty_batch() -> None:
    result, _ = run(0, set())
    assert result == StepResult()


class SmallRunner(FragileRunner):
    """A runner with memory for a limited number of tokens per step."""

    def __init__(self, tokens: int, error: Exception) -> None:
        super().__init__(set())
        self.tokens = tokens
        self.error = error
        self.ranges: list[tuple[int, int]] = []

    def compute(self, entries: list[ScheduledSequence]) -> StepResult:
        if sum(entry.count for entry in entries) > self.tokens:
            raise self.error
        self.ranges += [(entry.start, entry.start + entry.count) for entry in entries]
        names = [int(entry.sequence.request) for entry in entries]
        return StepResult(
            [[name] * entry.sample_count for name, entry in zip(names, entries, strict=True)], [None] * len(names)
        )


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        NativeError("no memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_out_of_memory_shrinks_the_step_and_no_request_fails(error: Exception) -> None:
    runner = SmallRunner(4, error)
    prompts = [Sequence(str(i), 0, array("q", range(10)), 10, SamplingParams(seed=0), 1) for i in range(3)]
    batch = Batch(
        [
            ScheduledSequence(prompts[0], 0, 10),
            ScheduledSequence(prompts[1], 2, 5),
            ScheduledSequence(prompts[2], 8, 2, (7,)),
        ]
    )
    result = IsolatingRunner(runner).execute(batch)  # type: ignore[arg-type]
    assert result.failed == frozenset()
    assert result.token_ids == [[0], [], [2, 2]]
    assert runner.ranges == [(0, 2), (2, 5), (5, 7), (7, 10), (2, 4), (4, 7), (8, 10)]


def test_a_token_that_never_fits_fails_only_its_request() -> None:
    runner = SmallRunner(0, torch.OutOfMemoryError("CUDA out of memory"))
    result = IsolatingRunner(runner).execute(  # type: ignore[arg-type]
        Batch([ScheduledSequence(Sequence("0", 0, array("q", range(4)), 4, SamplingParams(seed=0), 1), 0, 4)])
    )
    assert (result.token_ids, result.failed) == ([[]], {"0"})
