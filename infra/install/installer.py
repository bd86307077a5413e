"""Runs the set-up steps of a checkout for `make`: Python packages, embedded store, models, kernels, web chat.

Must use the standard library only, because it runs on the system's Python before the virtual environment exists. A
step that is up to date is skipped, so a second run takes seconds; after a failure the same command continues there.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

from infra.install.models import embedding_model_step, model_step
from infra.install.node_packages import front_end_step, node_clients_step
from infra.install.programs import kernels_step, programs_for_tests_step
from infra.install.python_packages import environment_step, packages_step, store_step
from infra.install.step import ROOT, Installation, Step, StepFailed, perform

MINIMUM_PYTHON = (3, 11)

MakeStep = Callable[[Installation, Path], Step]
LANES: dict[str, Sequence[MakeStep]] = {
    "python": (packages_step, kernels_step, model_step, embedding_model_step, programs_for_tests_step),
    "beside": (store_step, front_end_step, node_clients_step),
}
"""Sequences of steps by log name; lanes run in parallel. Only one lane may call apt."""


def check_python() -> None:
    """Raise `StepFailed` if the Python that runs the set-up is older than Headrace requires."""
    if sys.version_info < MINIMUM_PYTHON:
        version = ".".join(map(str, sys.version_info[:3]))
        raise StepFailed(f"Python 3.11 or newer is needed, this is {version}: `make PYTHON=python3.11 ...`")


def install(installation: Installation) -> None:
    """Run all set-up steps that are not done yet, for the `installation`: the virtual environment, then lanes of steps.

    Raises:
        StepFailed: a step failed; if both lanes failed, the first lane's error. One lane continues if the other fails.
    """
    check_python()
    installation.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    count = 1 + sum(map(len, LANES.values()))
    perform(environment_step(installation, installation.log("environment")), f"[1/{count}]")
    interrupted = threading.Event()

    def follow(name: str, first: int) -> None:
        for number, make_step in enumerate(LANES[name], start=first):
            if not interrupted.is_set():
                perform(make_step(installation, installation.log(name)), f"[{number}/{count}]")

    firsts = accumulate((len(lane) for lane in LANES.values()), initial=2)
    with ThreadPoolExecutor(len(LANES)) as threads:
        running = [threads.submit(follow, name, first) for name, first in zip(LANES, firsts, strict=False)]
        try:
            errors = [lane.exception() for lane in running]
        except KeyboardInterrupt:
            interrupted.set()  # running programs are interrupted too, by the terminal
            raise
    for error in filter(None, errors):
        raise error


def main() -> int:
    """Run `python3 -m infra.install [--dev]`: set this checkout up, and return the exit status."""
    parser = argparse.ArgumentParser(prog="infra.install", description="Set up everything that Headrace needs to run.")
    parser.add_argument("--dev", action="store_true", help="linters and test programs too")
    home = Path(os.environ.get("HEADRACE_HOME") or ROOT / ".headrace")
    try:
        install(Installation(home=home.resolve(), dev=parser.parse_args().dev))
    except StepFailed as error:
        print(f"headrace: {error}\nheadrace: fix that and run the same command again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("headrace: interrupted; run the same command again to continue", file=sys.stderr)
        return 130
    return 0
