from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.results import ROOT, UnreadableResult, make_result, read, this_command, write


def test_a_result_comes_back_as_it_was_written(tmp_path: Path) -> None:
    result = make_result("speed", {"seed": 0}, [{"batch": 1, "tokens_per_second": 12.5, "peer": None}], {"peer": "1.0"})
    path = write(result, tmp_path)
    assert path == tmp_path / "speed.json"
    assert read(path) == result


def test_a_result_has_machine_and_versions_but_no_local_path(tmp_path: Path) -> None:
    result = make_result("speed", {}, [])
    assert result.machine.cores >= 1
    assert result.machine.memory > 0
    assert {"headrace", "commit", "python", "torch"} <= set(result.versions)
    assert str(ROOT) not in write(result, tmp_path).read_text()


def test_the_command_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["/opt/python", "-m", "benchmarks.engine", f"{ROOT}/models/a file.gguf"])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert this_command().endswith("OMP_NUM_THREADS=1 python -m benchmarks.engine 'models/a file.gguf'")


def test_figures_have_five_digits() -> None:
    assert make_result("speed", {}, [{"a": 1234.5678, "b": 0.00012345678, "c": 7}]).rows == [
        {"a": 1234.6, "b": 0.00012346, "c": 7}
    ]


@pytest.mark.parametrize("content", ["", "{}", '{"name": 1}'])
def test_other_files_are_rejected(tmp_path: Path, content: str) -> None:
    path = tmp_path / "speed.json"
    path.write_text(content)
    with pytest.raises(UnreadableResult, match=r"speed\.json"):
        read(path)


def test_another_schema_is_rejected(tmp_path: Path) -> None:
    path = write(make_result("speed", {}, []), tmp_path)
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 99'))
    with pytest.raises(UnreadableResult, match="schema 99"):
        read(path)
