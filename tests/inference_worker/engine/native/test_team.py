"""Threads of a team do every chunk of a step once, in the order of the calls of `share`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from inference_worker.engine.native.build import SOURCES, find_compiler
from inference_worker.errors import NativeUnavailable

SECONDS = 2.0


def test_no_call_of_share_is_skipped_or_begins_early(tmp_path: Path) -> None:
    """More threads than most machines have free cores, so that some lose theirs at every point of a step."""
    try:
        compiler = find_compiler()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))
    program, source = tmp_path / "team_steps", Path(__file__).with_name("team_steps.cpp")
    command = [compiler, "-std=c++20", "-O2", "-pthread", f"-I{SOURCES}", "-o", str(program), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    run = subprocess.run([program, "4", str(SECONDS)], check=False, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "0 wrong")
