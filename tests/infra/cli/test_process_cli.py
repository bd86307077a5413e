"""Default ids of processes."""

from __future__ import annotations

import os
import re
import socket

import pytest

from infra.cli.process_cli import _named


def test_processes_of_one_machine_have_different_default_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_ID", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "mill.example")
    first = _named("worker", "id", None)
    monkeypatch.setattr(os, "getpid", lambda: 7)
    assert _named("worker", "id", None) == "worker-mill-example-7"
    assert first is not None
    assert re.fullmatch(r"worker-mill-example-[0-9]+", first)


def test_an_id_that_is_given_or_configured_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _named("worker", "id", "worker-9") == "worker-9"
    monkeypatch.setenv("HEADRACE_ID", "worker-4")
    assert _named("worker", "id", None) is None
