"""A private RabbitMQ node for the whole test session, and a fresh virtual host for each test that asks for one.

Without the program these tests are skipped on a laptop and fail where `CI` is set.
"""

from __future__ import annotations

import base64
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.launcher.readiness import free_port
from infra.rabbitmq.definitions import ADMIN, permissions
from infra.rabbitmq.node import NodePorts
from tests.child_process import NodeProcess, start_or_skip

_PASSWORD = "test"


def make_node(home: Path) -> NodeProcess:
    """A node that is not started yet."""
    ports = NodePorts(*(free_port() for _ in range(5)))
    return NodeProcess(home, ports, dict.fromkeys(permissions(), _PASSWORD), disk_free_limit="50MB")


@pytest.fixture(scope="session")
def rabbitmq_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node = make_node(tmp_path_factory.mktemp("rabbitmq"))
    start_or_skip(node)
    yield node
    node.kill()  # its data is thrown away: no need to stop in order


@dataclass(frozen=True)
class Console:
    """The management API, as far as tests need it."""

    node: NodeProcess

    def call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        token = base64.b64encode(f"{ADMIN}:{_PASSWORD}".encode()).decode()
        request = urllib.request.Request(
            f"{self.node.management_url}/api/{path}",
            method=method,
            data=body,
            headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return bytes(response.read())


@pytest.fixture
def console(rabbitmq_node: NodeProcess) -> Console:
    return Console(rabbitmq_node)


@pytest.fixture
def rabbitmq_url(rabbitmq_node: NodeProcess, console: Console) -> Iterator[str]:
    """The URL of a virtual host of the test's own, as the administrator."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    console.call("PUT", f"vhosts/{name}")
    console.call("PUT", f"permissions/{name}/{ADMIN}", b'{"configure": ".*", "write": ".*", "read": ".*"}')
    yield f"amqp://{ADMIN}:{_PASSWORD}@127.0.0.1:{rabbitmq_node.ports.amqp}/{name}"
    console.call("DELETE", f"vhosts/{name}")
