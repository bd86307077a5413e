"""Environment of the processes that the launcher starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.home import environment
from infra.home.home import Home
from infra.home.settings import LauncherSettings
from infra.launcher.processes import PlatformProcesses


def processes_of(folder: Path, **settings: Any) -> PlatformProcesses:
    home = Home(folder)
    home.prepare()
    return PlatformProcesses(
        environment.load(LauncherSettings, home=folder, rabbitmq_console_port=15999, **settings), home
    )


@pytest.fixture
def processes(tmp_path: Path) -> PlatformProcesses:
    return processes_of(tmp_path)


def test_administrators_are_shown_the_brokers_console(
    processes: PlatformProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = processes.gateway().environment["HEADRACE_CONSOLE_URL"]
    assert told == processes.console_url == "http://127.0.0.1:15999/#/queues"
    monkeypatch.setenv("HEADRACE_CONSOLE_URL", "https://queues.example")
    assert processes.gateway().environment["HEADRACE_CONSOLE_URL"] == "https://queues.example"


@pytest.mark.parametrize(("search", "user"), [(True, "searcher"), (False, "worker")])
def test_only_workers_that_search_may_open_child_jobs(tmp_path: Path, search: bool, user: str) -> None:
    worker = processes_of(tmp_path, search=search).worker(1, of=2).environment
    assert worker["HEADRACE_AMQP_URL"].startswith(f"amqp://{user}:")
    assert worker["HEADRACE_SEARCH"] == str(search).lower()
