"""Clients for Node: OpenAI's own and the AI SDK, run by one Node process (`node/clients.test.js`)."""

from __future__ import annotations

import os
import shutil
import subprocess

import openai
import pytest

from infra.install.node_packages import NODE_CLIENTS
from tests.e2e.clients.conftest import Service
from tests.e2e.launcher_process import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store]


@pytest.fixture(scope="module")
def node() -> str:
    program = shutil.which("node")
    if program is None or not (NODE_CLIENTS / "node_modules").is_dir():
        reason = "Node or its modules are missing: `make setup-dev`"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    assert program is not None
    return program


def test_node_clients(node: str, service: Service, client: openai.OpenAI) -> None:
    done = subprocess.run(
        [node, "clients.test.js"],
        cwd=NODE_CLIENTS,
        env={
            "PATH": os.environ["PATH"],
            "OPENAI_BASE_URL": str(client.base_url),
            "OPENAI_API_KEY": client.api_key,
            "MODEL": MODEL,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    service.until_idle()
