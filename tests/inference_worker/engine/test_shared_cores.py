"""Engines of one machine give way to each other: who waits, how long, and what a killed process leaves."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from inference_worker.engine import shared_cores
from inference_worker.engine.shared_cores import SharedCores

FOREVER = 600.0
HOLDER = """
import sys, time
from pathlib import Path
from inference_worker.engine.shared_cores import SharedCores
cores = SharedCores(Path(sys.argv[1]))
cores.hold(True)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock"
    path.touch()
    return path


def waited(cores: SharedCores, seconds: float) -> bool:
    """Return whether `cores` give way until `seconds` from now, instead of not at all."""
    until = time.monotonic() + seconds
    cores.give_way(until)
    return time.monotonic() >= until


def test_others_wait_until_the_cores_are_free(lock: Path) -> None:
    people, flex = SharedCores(lock), SharedCores(lock)
    assert not waited(flex, FOREVER)
    assert not flex.are_people_served
    people.hold(True)
    assert waited(flex, 0.01)
    assert flex.are_people_served
    assert people.are_people_served
    people.hold(False)
    assert not waited(flex, FOREVER)


def test_engines_that_serve_people_do_not_wait_for_each_other(lock: Path) -> None:
    one, other, flex = SharedCores(lock), SharedCores(lock), SharedCores(lock)
    one.hold(True)
    other.hold(True)
    one.hold(False)
    assert waited(flex, 0.01)
    other.hold(False)
    assert not waited(flex, FOREVER)


def test_an_engine_does_not_wait_for_itself(lock: Path) -> None:
    cores = SharedCores(lock)
    cores.hold(True)
    cores.hold(False)
    assert not waited(cores, FOREVER)


def test_people_are_forgotten_after_a_time(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = SharedCores(lock)
    people.hold(True)
    monkeypatch.setattr(shared_cores, "PEOPLE_SECONDS", 0.0)
    assert not people.are_people_served


def test_a_killed_process_holds_nothing(lock: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True) as holder:
        flex = SharedCores(lock)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            assert waited(flex, 0.01)
        finally:
            holder.kill()
        holder.wait()
        assert not waited(flex, FOREVER)
