"""`headrace keys`: a key is printed once, and has the configured permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from auth_billing.access.model_access import ALL_MODELS
from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from auth_billing.errors import InvalidApiKey
from infra.accounts import account_services
from infra.cli.keys_cli import seconds
from infra.cli.main import app
from infra.home.home import Home

pytestmark = pytest.mark.store

PEPPER = "a pepper of thirty-two characters and more"
Keys = Callable[..., str]


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> Keys:
    """Runs a command; returns its output, prefixed by the exit status if that is not 0."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_API_KEY_PEPPER", PEPPER)
    monkeypatch.setenv("HEADRACE_MONGODB_URL", database_url)
    monkeypatch.setenv("COLUMNS", "80")
    Home(tmp_path).prepare()

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["keys", *arguments])
        return done.output.strip() if done.exit_code == 0 else f"{done.exit_code}: {done.output}"

    assert CliRunner().invoke(app, ["key"]).exit_code == 0  # makes the development account
    return run


@pytest.fixture
def caller(tmp_path: Path, database_url: str) -> Callable[[str], Principal | None]:
    async def ask(text: str) -> Principal | None:
        async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
            try:
                return await access.authenticator().authenticate(text)
            except InvalidApiKey:
                return None

    return lambda text: asyncio.run(ask(text))


def test_the_life_cycle_of_a_key(keys: Keys, caller: Callable[[str], Principal | None]) -> None:
    text = keys("create", "web", "--scope", "embeddings", "--model", "m", "--model", "n", "--expires-in", "90d")
    made = caller(text)
    assert made is not None
    assert (made.tenant, made.project, made.user) == ("development", "development-default", "")
    assert made.scopes == {Scope.EMBEDDINGS}
    assert made.models == ALL_MODELS.restricted_to(frozenset({"m", "n"}))
    listed = keys("list")
    line = next(line for line in listed.splitlines() if f"key_{made.key_id}" in line)
    assert {"web", "development-default", "embeddings", "m,", "n"} <= set(line.split())
    assert text.split("_", 3)[3].rpartition("_")[0] not in listed  # the secret, which may have underscores

    newer = keys("rotate", f"key_{made.key_id}", "--overlap", "0s")
    assert caller(text) is None
    successor = caller(newer)
    assert successor is not None
    assert (successor.scopes, successor.models) == (made.scopes, made.models)
    assert successor.key_id in keys("revoke", successor.key_id)
    assert caller(newer) is None
    assert successor.key_id not in keys("list")
    assert keys("revoke", successor.key_id).startswith("1: headrace: no key")


def test_an_admin_key_administers_and_nothing_else(keys: Keys, caller: Callable[[str], Principal | None]) -> None:
    admin = caller(keys("create", "ops", "--admin"))
    assert admin is not None
    assert admin.may(Scope.ORGANIZATION_ADMIN)
    assert not admin.may(Scope.CHAT_COMPLETIONS)


def test_mistakes_are_one_line(keys: Keys) -> None:
    for arguments, said in (
        (["create", "k", "--organisation", "nowhere"], "1: headrace: no"),
        (["create", "k", "--project", "nowhere"], "1: headrace: no project"),
        (["create", "k", "--scope", "organization.admin"], "1: headrace: more scopes"),
        (["create", "k", "--scope", "everything"], "2: "),
        (["create", "k", "--admin", "--project", "p"], "2: "),
        (["create", ""], "1: headrace: A name has"),
        (["create", "k", "--expires-in", "soon"], "2: "),
        (["revoke", "key_nowhere"], "1: headrace: there is no key"),
        (["list", "--organisation", "nowhere"], "1: headrace: no organisation"),
    ):
        assert keys(*arguments).startswith(said), arguments


def test_durations_are_parsed() -> None:
    assert [seconds(text) for text in ("10s", "2m", "1h", "3d")] == [10.0, 120.0, 3600.0, 259200.0]
