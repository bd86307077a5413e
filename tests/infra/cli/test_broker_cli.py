"""`headrace rabbitmq-definitions`: definitions with a user for each service, from passwords in the environment."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.rabbitmq.definitions import hash_password, permissions
from runtime.lifecycle import StartupError

VARIABLES = {user: f"HEADRACE_RABBITMQ_{user.upper()}_PASSWORD" for user in permissions()}


@pytest.fixture
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    for user, variable in VARIABLES.items():
        monkeypatch.setenv(variable, f"secret of {user}")


@pytest.mark.usefixtures("passwords")
def test_every_user_gets_its_password(tmp_path: Path) -> None:
    output = tmp_path / "definitions.json"
    done = CliRunner().invoke(app, ["rabbitmq-definitions", "--output", str(output)])
    assert done.exit_code == 0
    written = json.loads(output.read_text())
    assert {user["name"] for user in written["users"]} == set(VARIABLES)
    for user in written["users"]:
        salt = base64.b64decode(user["password_hash"])[:4]
        assert user["password_hash"] == hash_password(f"secret of {user['name']}", salt)
    assert "secret" not in output.read_text()


@pytest.mark.usefixtures("passwords")
def test_they_are_printed() -> None:
    done = CliRunner().invoke(app, ["rabbitmq-definitions"])
    assert json.loads(done.stdout)["vhosts"] == [{"name": "headrace"}]


@pytest.mark.usefixtures("passwords")
def test_a_missing_password_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLES["proxy"])
    error = CliRunner().invoke(app, ["rabbitmq-definitions"]).exception
    assert isinstance(error, StartupError)
    assert VARIABLES["proxy"] in str(error)


def test_a_proxy_may_do_what_a_worker_may() -> None:
    assert permissions()["proxy"] == permissions()["worker"]
