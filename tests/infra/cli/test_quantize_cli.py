"""`headrace quantize`: its output, its default folder, and errors in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from runtime.lifecycle import StartupError
from tests.fakes.quantised_models import WIDE
from tests.fakes.tiny_models import save_tiny
from tests.fakes.tiny_scorers import save_byte_tokenizer


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    save_tiny(tmp_path / "Tiny", "llama", **WIDE, vocab_size=300, num_hidden_layers=1)
    save_byte_tokenizer(tmp_path / "Tiny", chat=True)
    return tmp_path / "Tiny"


def test_the_report_and_the_command_that_serves_the_result(model: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["quantize", str(model), "--to", "int8"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "home" / "models" / "tiny-int8"
    assert (folder / "quantization-report.json").is_file()
    assert done.output.splitlines()[-1] == f"headrace serve --model {folder}"
    for shown in ("perplexity", "same best token", "weights on disk", "of the weights' mean square"):
        assert shown in done.output


def test_errors_are_one_line(model: Path, tmp_path: Path) -> None:
    def fails(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["quantize", *arguments])
        assert isinstance(done.exception, StartupError)
        return str(done.exception)

    assert "exists already" in fails(str(model), "--to", "int4", "--out", str(tmp_path))
    assert "there is no model at" in fails(f"{tmp_path}/absent", "--to", "int4")
    assert "absent.txt" in fails(str(model), "--to", "int4", "--text", f"{tmp_path}/absent.txt")
    assert "absent.txt" in fails(str(model), "--to", "int4", "--calibration", f"{tmp_path}/absent.txt")
    assert "rounded without a text" in fails(str(model), "--to", "fp8", "--calibration", f"{tmp_path}/absent.txt")
