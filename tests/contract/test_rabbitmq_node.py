"""The private RabbitMQ node: beside another node, and after its end."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from infra.rabbitmq import node as node_module
from infra.rabbitmq.definitions import hash_password, permissions, render
from infra.rabbitmq.node import BrokerNotInstalled
from tests.child_process import NodeProcess, rabbitmqctl, start_or_skip
from tests.rabbitmq_fixtures import make_node


def processes_of(home: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("HOME") == str(home.resolve()):
                found.append(process.name())
        except psutil.Error:
            continue
    return found


@pytest.mark.rabbitmq
def test_two_nodes_run_side_by_side_and_leave_no_process(rabbitmq_node: NodeProcess, tmp_path: Path) -> None:
    first = make_node(tmp_path)
    start_or_skip(first)
    try:
        users = set(rabbitmqctl(first, "list_users").split())
        assert {"gateway", "worker", "billing", "admin"} <= users
        assert "guest" not in users
    finally:
        first.stop()
    deadline = time.monotonic() + 60  # Erlang's small helpers end when they notice that their pipe is closed
    while processes_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(tmp_path) == []
    assert rabbitmq_node.pid is not None


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node_module, "_DEBIAN_PROGRAMS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerNotInstalled, match="apt-get install rabbitmq-server"):
        make_node(tmp_path).start()


def test_definitions_hold_no_password() -> None:
    passwords = {user: f"secret-{user}" for user in permissions()}
    assert "secret" not in str(render(passwords))


def test_password_hash_is_rabbitmqs() -> None:
    # The example of https://www.rabbitmq.com/docs/passwords#computing-password-hash
    assert hash_password("test12", bytes.fromhex("908DC60A")) == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
