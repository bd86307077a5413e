"""Environment of the processes that the launcher starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.home import environment
from infra.home.home import Home
from infra.home.settings import LauncherSettings
from infra.launcher.processes import PlatformProcesses


@pytest.fixture
def processes(tmp_path: Path) -> PlatformProcesses:
    home = Home(tmp_path)
    home.prepare()
    return PlatformProcesses(environment.load(LauncherSettings, home=tmp_path, rabbitmq_console_port=15999), home)


def test_administrators_are_shown_the_brokers_console(
    processes: PlatformProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = processes.gateway().environment["HEADRACE_CONSOLE_URL"]
    assert told == processes.console_url == "http://127.0.0.1:15999/#/queues"
    monkeypatch.setenv("HEADRACE_CONSOLE_URL", "https://queues.example")
    assert processes.gateway().environment["HEADRACE_CONSOLE_URL"] == "https://queues.example"
