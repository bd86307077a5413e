"""`python -m benchmarks.test_time_compute`: accuracy of searches against N, tokens and time, and of votes that stop.

Runs the platform with the model and the verifier (`python -m benchmarks.test_time_compute.verifier` trains the default
one) and asks it for answers to the evaluation tasks in each way, by an OpenAI client: all ways for one task, then the
next task, until the time is over. Writes `test-time-compute.json` or, with `--votes`, `test-time-compute-votes.json`;
`python -m benchmarks.test_time_compute.document` publishes them in `docs/test-time-compute.md`, as `--publish` does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil

from benchmarks.report import print_result
from benchmarks.results import Value, make_result, write
from benchmarks.test_time_compute import document
from benchmarks.test_time_compute.attempts import Attempt, attempt
from benchmarks.test_time_compute.methods import EXPANSIONS, MAX_TOKENS, Way, ways_of_accuracy, ways_of_voting
from benchmarks.test_time_compute.platform import Platform, searching_platform
from benchmarks.test_time_compute.tables import accuracy_rows, vote_rows
from benchmarks.test_time_compute.task import LANGUAGES, Family, Task
from benchmarks.test_time_compute.task_sets import SIZE, evaluation_tasks
from benchmarks.test_time_compute.verifier import DEFAULT_MODEL, DEFAULT_VERIFIER
from runtime import logging

RARE = 4
"""Of a family that is rarely solved, 24-games, there is one task for so many of each other family."""


def tasks_in_turns(families: Sequence[Family], count: int) -> Iterator[Task]:
    """Yield `count` tasks of each family and language in turns, of 24-games one in `RARE`."""
    sets = {(family, language): evaluation_tasks(family, language) for family in families for language in LANGUAGES}
    for number in range(count):
        for (family, _), tasks in sets.items():
            if family is not Family.GAME_OF_24:
                yield tasks[number]
            elif number % RARE == 0:
                yield tasks[number // RARE]


def measure(platform: Platform, ways: Sequence[Way], arguments: argparse.Namespace) -> list[Attempt]:
    """Return the attempts at all tasks in all `ways` that end in the time, and print the progress."""
    began, attempts = time.monotonic(), list[Attempt]()
    with ThreadPoolExecutor(arguments.clients) as clients:
        for number, task in enumerate(tasks_in_turns(arguments.family, arguments.tasks), start=1):
            ask = partial(attempt, platform, task, temperature=arguments.temperature, seed=number)
            attempts += clients.map(ask, ways)
            minutes = (time.monotonic() - began) / 60
            share = sum(each.right for each in attempts) / len(attempts)
            print(f"{number} tasks, {len(attempts)} answers, {share:.0%} right, {minutes:.1f} min", flush=True)
            if minutes > arguments.minutes:
                break
    return attempts


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.test_time_compute`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.test_time_compute", description=__doc__)
    parser.add_argument("--model", type=Path, default=DEFAULT_MODEL, help="a .gguf file or a folder with safetensors")
    parser.add_argument("--verifier", type=Path, default=DEFAULT_VERIFIER, help="folder of a model that scores")
    parser.add_argument("--verifier-dtype", default="bfloat16", help="number format of the verifier")
    parser.add_argument("--family", nargs="*", type=Family, choices=list(Family), default=list(Family))
    parser.add_argument("--tasks", type=int, default=100, help=f"of each family and language, at most {SIZE}")
    parser.add_argument("--votes", action="store_true", help="votes that stop and votes of all N, not accuracy")
    parser.add_argument("--minutes", type=float, default=25, help="no task is begun later")
    parser.add_argument("--n", nargs="*", type=int, default=[1, 4, 16], help=f"multiples of {EXPANSIONS}, and 1")
    parser.add_argument("--clients", type=int, default=2, help="requests at a time")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--out", type=Path, default=document.RESULTS, help="folder of the result files")
    parser.add_argument("--publish", action="store_true", help="write the tables and the chart into the documentation")
    arguments = parser.parse_args(words)
    logging.configure("benchmark", level="warning")
    verifier = None if arguments.votes else arguments.verifier
    with searching_platform(arguments.model, verifier, ["--dtype", arguments.verifier_dtype]) as platform:
        ways = (ways_of_voting if arguments.votes else ways_of_accuracy)(arguments.n)
        attempts = measure(platform, ways, arguments)
    settings: dict[str, Value] = {
        "model": arguments.model.name,
        **({} if verifier is None else {"verifier": verifier.name, "verifier_dtype": arguments.verifier_dtype}),
        "temperature": arguments.temperature,
        "max_tokens": MAX_TOKENS,
        "requests_at_a_time": arguments.clients,
        "load_average_15_min": psutil.getloadavg()[2],
    }
    name = document.VOTES if arguments.votes else document.ACCURACY
    result = make_result(name, settings, (vote_rows if arguments.votes else accuracy_rows)(attempts))
    print_result(result, write(result, arguments.out))
    if arguments.publish:
        document.publish(arguments.out)


if __name__ == "__main__":
    main()
