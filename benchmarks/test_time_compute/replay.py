"""`python -m benchmarks.test_time_compute.replay`: votes that stop, replayed on stored answers of the same tasks.

Samples answers to the evaluation tasks once, into a file that a later call continues. Then draws orders of each task's
answers and replays the vote of the first N, stopped and not, at several confidences. Both votes have the same answers,
so the difference of their accuracies has a narrow interval (a bootstrap over tasks). Writes
`test-time-compute-replay.json`, which `python -m benchmarks.test_time_compute.document` publishes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.report import print_result
from benchmarks.results import ROOT, Row, make_result, write
from benchmarks.test_time_compute import document
from benchmarks.test_time_compute.__main__ import tasks_in_turns
from benchmarks.test_time_compute.attempts import voting_paths, waves_of
from benchmarks.test_time_compute.methods import MAX_TOKENS
from benchmarks.test_time_compute.samples import Sampler
from benchmarks.test_time_compute.statistics import difference
from benchmarks.test_time_compute.task import Family, Task
from benchmarks.test_time_compute.task_sets import conversation
from benchmarks.test_time_compute.verifier import DEFAULT_MODEL
from inference_worker.search.results import extract_results
from inference_worker.search.voting import count_votes
from inference_worker.settings import EngineSettings
from router.messages import CONFIDENCE, SamplingParams
from runtime import logging

FAMILIES = (Family.WORD_PROBLEM, Family.EQUATION, Family.NEXT_NUMBER)
ANSWERS = 64
"""Stored answers to each task."""
STORED = ROOT / ".headrace" / "vote-samples.jsonl"
SIZES = (8, 16, 32, 64)
CONFIDENCES = (1.0, CONFIDENCE, 0.9)


class StoredAnswers(msgspec.Struct, frozen=True):
    """The answers to one task: the result of each, whether it is right, and its number of tokens."""

    family: Family
    question: str
    results: list[str | None]
    right: list[bool]
    tokens: list[int]


@dataclass(frozen=True)
class Replay:
    """One replayed vote of N answers: whole, and stopped."""

    right_of_all: bool
    right: bool
    agrees: bool
    """Whether both have the same result."""
    tokens_of_all: int
    tokens: int
    waves: int


def replayed(stored: StoredAnswers, order: Sequence[int], confidence: float) -> Replay:
    """Replay the vote of a task's answers in this order."""
    paths = voting_paths([stored.results[index] for index in order], [""] * len(order))
    waves = waves_of(paths, confidence)

    def winner(count: int) -> int:
        votes = count_votes(paths[:count], weighted=False)
        return order[votes[0].paths[0].number - 1 if votes else 0]

    whole, stopped = winner(len(order)), winner(sum(waves))
    tokens = [stored.tokens[index] for index in order]
    return Replay(
        right_of_all=stored.right[whole],
        right=stored.right[stopped],
        agrees=stored.results[whole] == stored.results[stopped],
        tokens_of_all=sum(tokens),
        tokens=sum(tokens[: sum(waves)]),
        waves=len(waves),
    )


def replay_rows(tasks: Sequence[StoredAnswers], orders: int) -> list[Row]:
    """Return a row for each family, N and confidence, from `orders` orders of each task's answers."""
    rows: list[Row] = []
    for family in dict.fromkeys(task.family for task in tasks):
        own = [task for task in tasks if task.family is family]
        for n in SIZES:
            rng = np.random.default_rng(n)
            drawn = [[rng.permutation(len(task.results))[:n].tolist() for _ in range(orders)] for task in own]
            for confidence in CONFIDENCES:
                votes = [
                    [replayed(task, order, confidence) for order in some] for task, some in zip(own, drawn, strict=True)
                ]
                rows.append(_row(family, n, confidence, votes))
    return rows


def _row(family: Family, n: int, confidence: float, votes: list[list[Replay]]) -> Row:
    """Return the row of the `votes` on each task."""
    every = [vote for some in votes for vote in some]
    right, right_of_all = (
        [float(np.mean([getattr(vote, name) for vote in some])) for some in votes] for name in ("right", "right_of_all")
    )
    low, high = difference(right, right_of_all)
    return {
        "tasks": family.value,
        "n": n,
        "confidence": confidence,
        "questions": len(votes),
        "accuracy_of_all": float(np.mean(right_of_all)),
        "accuracy": float(np.mean(right)),
        "difference": float(np.mean(right) - np.mean(right_of_all)),
        "difference_low": low,
        "difference_high": high,
        "agreement": float(np.mean([vote.agrees for vote in every])),
        "tokens_saved": 1 - sum(vote.tokens for vote in every) / sum(vote.tokens_of_all for vote in every),
        "waves": float(np.mean([vote.waves for vote in every])),
    }


def sample(model: Path, tasks: Iterable[Task], path: Path, temperature: float, minutes: float) -> None:
    """Append the answers to `tasks` to the file at `path`, until the time is over."""
    until = time.monotonic() + 60 * minutes
    sampler = Sampler(EngineSettings(model=str(model), quantization="int8", activation_bits=8, max_model_len=1024))
    try:
        for number, task in enumerate(tasks):
            if time.monotonic() > until:
                break
            sampling = SamplingParams(seed=number, temperature=temperature, max_tokens=MAX_TOKENS)
            (answers,) = sampler.sample([conversation(task)], sampling, ANSWERS)
            texts = [answer.text for answer in answers]
            stored = StoredAnswers(
                family=task.family,
                question=task.question,
                results=extract_results(texts, task.family.extraction),
                right=[task.is_right(text) for text in texts],
                tokens=[answer.tokens for answer in answers],
            )
            with path.open("ab") as file:
                file.write(msgspec.json.encode(stored) + b"\n")
            print(f"{number + 1}: {task.family}, {np.mean(stored.right):.0%} right", flush=True)
    finally:
        sampler.close()


def read_answers(path: Path) -> list[StoredAnswers]:
    """Return the stored answers of all tasks in the file at `path`; none if there is no file."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=StoredAnswers) for line in lines]


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.test_time_compute.replay`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.test_time_compute.replay", description=__doc__)
    parser.add_argument("--model", type=Path, default=DEFAULT_MODEL, help="a .gguf file or a folder with safetensors")
    parser.add_argument("--stored", type=Path, default=STORED, help="file of the stored answers")
    parser.add_argument("--tasks", type=int, default=20, help="of each family and language")
    parser.add_argument("--minutes", type=float, default=30, help="no task is sampled later")
    parser.add_argument("--orders", type=int, default=50, help="drawn orders of each task's answers")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--out", type=Path, default=document.RESULTS, help="folder of the result file")
    arguments = parser.parse_args(words)
    logging.configure("benchmark", level="warning")
    tasks = {task.question: task for task in tasks_in_turns(FAMILIES, arguments.tasks)}
    known = {stored.question for stored in read_answers(arguments.stored)}
    if new := [task for question, task in tasks.items() if question not in known]:
        sample(arguments.model, new, arguments.stored, arguments.temperature, arguments.minutes)
    settings = {
        "model": arguments.model.name,
        "temperature": arguments.temperature,
        "max_tokens": MAX_TOKENS,
        "answers_of_a_task": ANSWERS,
        "orders": arguments.orders,
    }
    stored = [each for each in read_answers(arguments.stored) if each.question in tasks]
    rows = replay_rows(stored, arguments.orders)
    result = make_result(document.REPLAY, settings, rows)
    print_result(result, write(result, arguments.out))


if __name__ == "__main__":
    main()
