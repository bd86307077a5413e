"""`headrace batch`: what the commands print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.cli.batch_commands import BatchCommands
from infra.cli.main import app
from runtime.lifecycle import StartupError
from tests.infra.cli.test_batch_commands import batch


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The batch that the gateway has."""
    found = batch()
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "hr_live_key")
    monkeypatch.setattr(BatchCommands, "find", lambda _self, _id: found)
    monkeypatch.setattr(BatchCommands, "cancel", lambda _self, _id: found)
    monkeypatch.setattr(BatchCommands, "create", lambda _self, _file, _endpoint: found)
    monkeypatch.setattr(BatchCommands, "latest", lambda _self: [found])
    monkeypatch.setattr(BatchCommands, "download", lambda _self, id, path: path.write_text(id))
    return found


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["batch", *arguments])
    return done.exit_code, done.output


def test_batches_are_created_waited_for_and_listed() -> None:
    assert run("create", "in.jsonl") == (0, "batch_1\n")
    status, output = run("create", "in.jsonl", "--wait")
    assert status == 0
    assert "2/2" in output
    assert "batch_1: completed" in output
    assert "2 lines, 2 completed, 0 failed" in run("wait", "batch_1")[1]
    for shown in ("batch_1", "in.jsonl", "/v1/embeddings", "2/2 (100%)"):
        assert shown in run("list")[1]
    assert "in.jsonl completed" in output
    assert "in.jsonl for /v1/embeddings" in run("status", "batch_1")[1]
    assert "output file: file-out" in run("status", "batch_1")[1]
    assert run("cancel", "batch_1")[0] == 0


def test_a_batch_whose_lines_are_not_counted_and_whose_file_has_no_name(answers: dict[str, Any]) -> None:
    counts = {"total": 0, "completed": 0, "failed": 0}
    answers.update(status="validating", input_file_name="", request_counts=counts)
    assert re.search(r"file-in .* validating\W+-\W+0", run("list")[1])


def test_a_failed_batch_is_an_error(answers: dict[str, Any]) -> None:
    error = {"code": "empty_file", "message": "The input file has no lines.", "line": None}
    line = {"code": "invalid_json_line", "message": "Not JSON.", "line": 3}
    answers.update(status="failed", errors={"data": [error, line]}, output_file_id=None)
    status, output = run("status", "batch_1")
    assert status == 1
    assert "The input file has no lines. (empty_file)" in output
    assert "line 3: Not JSON. (invalid_json_line)" in output


def test_results_are_written_to_files(answers: dict[str, Any], tmp_path: Path) -> None:
    answers.update(error_file_id="file-err")
    output, errors = tmp_path / "out.jsonl", tmp_path / "err.jsonl"
    assert run("download", "batch_1", str(output), "--errors", str(errors))[0] == 0
    assert (output.read_text(), errors.read_text()) == ("file-out", "file-err")


def test_a_batch_that_runs_has_no_results(answers: dict[str, Any], tmp_path: Path) -> None:
    answers.update(status="cancelling", output_file_id=None)
    with pytest.raises(StartupError, match="is cancelling and has no results yet: `headrace batch wait batch_1`"):
        CliRunner().invoke(app, ["batch", "download", "batch_1", str(tmp_path / "out.jsonl")], catch_exceptions=False)
    assert not (tmp_path / "out.jsonl").exists()
