"""Who is blamed for a batch that can't be computed."""

from __future__ import annotations

from array import array

from inference_worker.batch import Batch, BlockCopy, ScheduledSequence, StepResult
from inference_worker.execution.isolation import IsolatingRunner
from inference_worker.sequence import Sequence
from router.messages import SamplingParams


class FragileRunner:
    """Draws each sequence's name as a number; can't compute the guilty."""

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


def test_the_guilty_are_found_and_the_order_kept() -> None:
    result, runner = run(7, {2, 6})
    assert result.token_ids == [[0], [1], [], [3], [4], [5], []]
    assert result.failed == {"2", "6"}
    assert runner.copied == [[BlockCopy(0, 1)]], "copies are not repeated"


def test_alone_and_guilty() -> None:
    result, _ = run(1, {0})
    assert (result.token_ids, result.failed) == ([[]], {"0"})


def test_nothing_to_do() -> None:
    result, _ = run(0, set())
    assert result == StepResult()
