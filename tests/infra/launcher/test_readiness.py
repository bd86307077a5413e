from __future__ import annotations

import socket
from pathlib import Path

import pytest

from infra.launcher import readiness


def test_ports_of_our_own_choice_are_none_that_the_system_gives_out() -> None:
    ports = readiness._non_ephemeral_ports()
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] not in ports
    assert len(ports) >= readiness.MIN_PORTS


def test_a_system_that_does_not_say_which_ports_it_gives_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(readiness, "_EPHEMERAL_RANGE", tmp_path / "nothing")
    assert readiness._non_ephemeral_ports().stop == readiness.FIRST_EPHEMERAL


def test_no_port_is_given_twice_nor_one_on_which_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    first = readiness.free_port()
    with socket.create_server(("127.0.0.1", first)):
        monkeypatch.setattr(readiness, "_ports", iter(range(first, first + 100)))
        given = {readiness.free_port(), readiness.free_port()}
    assert len(given) == 2
    assert first not in given
