"""The `headrace` command: help, one-line errors, and no heavy import for a light command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from runtime.lifecycle import EXIT_CANNOT_START

LAUNCHED = ["serve", "up", "ps", "stop", "start", "restart", "gateway", "worker", "billing"]
COMMANDS = [*LAUNCHED, "quantize", "key", "keys", "prices", "control-secret"]


def headrace(*arguments: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return subprocess.run(
        [sys.executable, "-m", "infra.cli", *arguments],
        env={**clean, "HEADRACE_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_names_every_command() -> None:
    text = CliRunner().invoke(app, ["--help"]).output
    assert all(f" {command} " in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_a_misspelt_variable_is_one_line(tmp_path: Path) -> None:
    done = headrace("ps", home=tmp_path, HEADRACE_PROT="8001")
    assert done.returncode == EXIT_CANNOT_START
    assert done.stderr.splitlines() == [
        "headrace: HEADRACE_PROT is not a setting; did you mean HEADRACE_PORT? (all: docs/configuration.md)"
    ]


def test_a_bad_value_is_one_line(tmp_path: Path) -> None:
    done = headrace("ps", home=tmp_path, HEADRACE_PORT="eighty")
    assert done.returncode == EXIT_CANNOT_START
    assert done.stderr.startswith("headrace: HEADRACE_PORT=eighty: ")
    assert len(done.stderr.splitlines()) == 1


def test_ps_of_an_empty_home_says_so_and_starts_nothing(tmp_path: Path) -> None:
    done = headrace("ps", home=tmp_path)
    assert done.returncode == 0
    assert "nothing runs" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("stop",), ("stop", "worker-1"), ("start", "worker-1")])
def test_a_command_without_a_launcher_is_a_one_line_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = headrace(*arguments, home=tmp_path)
    assert done.returncode == EXIT_CANNOT_START
    assert len(done.stderr.splitlines()) == 1


def test_light_commands_do_not_load_torch() -> None:
    program = (
        "import sys, infra.cli.main, infra.cli.process_table; infra.cli.main.known_variables();"
        "heavy = {'torch', 'transformers', 'fastapi', 'motor', 'pika'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_worker_without_a_model_says_so(tmp_path: Path) -> None:
    done = headrace("worker", home=tmp_path)
    assert done.returncode == EXIT_CANNOT_START
    assert "HEADRACE_MODEL" in done.stderr


def test_a_worker_without_a_broker_says_so(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    done = headrace("worker", "--model", str(model), "--amqp-url", "amqp://x:y@127.0.0.1:1/v", home=tmp_path)
    assert done.returncode == EXIT_CANNOT_START
    assert "Traceback" not in done.stderr


def test_the_control_secret_is_the_same_each_time_and_not_the_pepper(tmp_path: Path) -> None:
    said = [headrace("control-secret", home=tmp_path).stdout.strip() for _ in range(2)]
    assert said[0] == said[1]
    assert re.fullmatch("[0-9a-f]{64}", said[0])
    assert said[0] not in (tmp_path / "secrets" / "api-key-pepper").read_text()


def test_a_proxy_without_the_control_secret_says_so(tmp_path: Path) -> None:
    arguments = ["proxy", "--config", "infra/containers/proxy.toml", "--amqp-url", "amqp://x:y@127.0.0.1:1/v"]
    done = headrace(*arguments, home=tmp_path, OPENAI_API_KEY="sk-x")
    assert done.returncode == EXIT_CANNOT_START
    assert done.stderr.startswith("headrace: HEADRACE_CONTROL_SECRET")
