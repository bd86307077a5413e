"""`headrace model-access`: restrictions are shown and set, and keys follow them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from auth_billing.access.model_access import ALL_MODELS, ModelAccess, ModelPolicy, PolicyMode
from auth_billing.access.roles import Role
from auth_billing.development_account import ORGANISATION
from auth_billing.people.people_records import User
from auth_billing.store.users import MongoUserStore
from infra.accounts import account_services
from infra.accounts.account_services import AccountServices
from infra.cli.main import app
from infra.home.home import Home

pytestmark = pytest.mark.store

PEPPER = "a pepper of thirty-two characters and more"
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> Run:
    """Runs a command; returns its output, prefixed by the exit status if that is not 0."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_API_KEY_PEPPER", PEPPER)
    monkeypatch.setenv("HEADRACE_MONGODB_URL", database_url)
    Home(tmp_path).prepare()

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        return done.output.strip() if done.exit_code == 0 else f"{done.exit_code}: {done.output}"

    assert run("key").startswith("hr_live_")  # makes the development account
    return run


def test_restrictions_of_project_role_and_member(run: Run, tmp_path: Path, database_url: str) -> None:
    async def join(access: AccountServices) -> None:
        users = MongoUserStore(access.connection)
        for role in (Role.OWNER, Role.MEMBER):
            await users.add(User(f"user-{role.value}", f"{role.value}@example.org", "Ada", 1.0, "hash"))
            members = access.administration(lambda _: None).members
            await members.join(ORGANISATION, f"user-{role.value}", role, 1.0)

    async def models(access: AccountServices) -> ModelAccess:
        return await access.model_policies().access(ORGANISATION, "development-default", "user-member")

    def with_accounts(work: Callable[[AccountServices], object]) -> object:
        async def do() -> object:
            async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
                return await work(access)  # type: ignore[misc]

        return asyncio.run(do())

    with_accounts(join)
    assert len(run("model-access", "development").splitlines()) == 1
    run("model-access", "development", "--project", "development-default", "--allow", "m", "--allow", "n")
    run("model-access", "development", "--role", "member", "--deny", "m")
    shown = run("model-access", "development", "--user", "MEMBER@example.org", "--deny", "k")
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["project", "development-default", "allow_list", "m,", "n"],
        ["role", "member", "deny_list", "m"],
        ["user", "user-member", "deny_list", "k"],
    ]
    assert with_accounts(models) == ModelAccess(
        (
            ModelPolicy(PolicyMode.ALLOW, frozenset({"m", "n"})),
            ModelPolicy(PolicyMode.DENY, frozenset({"m"})),
            ModelPolicy(PolicyMode.DENY, frozenset({"k"})),
        )
    )
    for subject in (("--project", "development-default"), ("--role", "member"), ("--user", "user-member")):
        run("model-access", "development", *subject, "--remove")
    assert with_accounts(models) == ALL_MODELS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["development", "--role", "owner", "--deny", "m"], "Owners may use every model"),
        (["development", "--user", "nobody@example.org", "--deny", "m"], "no user nobody@example.org"),
        (["development", "--project", "proj_no", "--deny", "m"], "no project proj_no"),
        (["org-no"], "no organisation org-no"),
        (["development", "--role", "member"], "one of --project"),
        (["development", "--role", "member", "--user", "u", "--deny", "m"], "one of --project"),
        (["development", "--role", "member", "--allow", "m", "--remove"], "one of --project"),
    ],
)
def test_errors_are_one_line(run: Run, arguments: list[str], message: str) -> None:
    refused = run("model-access", *arguments)
    assert refused[0] in "12"
    assert message in " ".join(refused.split())
