"""Comparisons in the sandbox: results, limits, a process that dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from inference_worker.search.events import Compare, Compared
from inference_worker.worker.search import result_sandbox
from inference_worker.worker.search.result_sandbox import LIMITS, ResultSandbox
from tests.fakes.fleet import until

HALVES = Compare(["x/2"], ["0.5x", r"\frac{x}{2}", "y", "y+0"])
EQUAL = Compared({"0.5x": "x/2", r"\frac{x}{2}": "x/2", "y+0": "y"})
ENDLESS = ["(x+1)^{290}(x+2)^{290}(x-1)^{290}(x+y)^{290}", "(x^2-1)^{290}(x+2)^{290}(y+x)^{290}"]
"""Results that are equal, which SymPy needs minutes to find."""


@pytest.fixture
def sandbox() -> Iterator[ResultSandbox]:
    sandbox = ResultSandbox(replace(LIMITS, wait_seconds=60.0))
    yield sandbox
    sandbox.close()


async def test_equal_results_are_found(sandbox: ResultSandbox) -> None:
    assert await sandbox.compare(HALVES, "t", "r") == EQUAL


async def test_results_before_a_limit_are_kept_and_the_others_differ(sandbox: ResultSandbox) -> None:
    command = Compare(HALVES.known, [*HALVES.new, *ENDLESS, "z", "z*1"])
    assert await sandbox.compare(command, "t", "r") == EQUAL
    assert await sandbox.compare(HALVES, "t", "r") == EQUAL


@pytest.mark.parametrize(
    "work",
    [
        "tests.fakes.hostile_work:can_not_be_confined",
        "tests.fakes.hostile_work:allocate",
        "tests.fakes.hostile_work:crash",
        "tests.fakes.hostile_work:invalid_messages",
        "inference_worker.no_such_module:work",
    ],
)
async def test_without_a_sandbox_and_after_failures_results_differ_as_their_texts(
    monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(result_sandbox, "WORK", work)
    sandbox = ResultSandbox(replace(LIMITS, wait_seconds=60.0))
    assert await sandbox.compare(HALVES, "t", "r") == Compared({})
    sandbox.close()


async def test_a_process_that_died_is_started_again(sandbox: ResultSandbox) -> None:
    await sandbox.compare(HALVES, "t", "r")
    server = sandbox._server
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await until(lambda: server.pid is None)
    assert await sandbox.compare(HALVES, "t", "r") == EQUAL
