from __future__ import annotations

import socket
from pathlib import Path

import pytest

from infra.launcher import readiness


def test_chosen_ports_are_outside_the_ephemeral_range() -> None:
    ports = readiness._non_ephemeral_ports()
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] not in ports
    assert len(ports) >= readiness.MIN_PORTS


def test_the_ephemeral_range_of_rfc_6335_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(readiness, "_EPHEMERAL_RANGE", tmp_path / "nothing")
    assert readiness._non_ephemeral_ports().stop == readiness.FIRST_EPHEMERAL


def test_no_port_is_chosen_twice_or_while_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    first = readiness.free_port()
    with socket.create_server(("127.0.0.1", first)):
        monkeypatch.setattr(readiness, "_ports", iter(range(first, first + 100)))
        given = {readiness.free_port(), readiness.free_port()}
    assert len(given) == 2
    assert first not in given
