"""`headrace reset-password`, a link that works, for any account but the local owner's; `reset-second-factor`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyotp
import pytest
from typer.testing import CliRunner

from auth_billing.access.roles import Role
from auth_billing.audit_log import AuditLog, AuditQuery
from auth_billing.development_account import ORGANISATION
from auth_billing.keys.key_invalidation import no_invalidation
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.local_owner import local_owner_email
from auth_billing.store.audit_log import MongoAuditLogStore
from chat_ui.settings import ChatSettings
from infra.accounts import account_services, sign_in_services
from infra.accounts.account_services import AccountServices
from infra.cli.main import app
from infra.home.home import Home
from tests.fakes.sessions import PASSWORD, sign_up_input
from tests.infra.cli.test_keys_cli import PEPPER

pytestmark = pytest.mark.store

With = Callable[[Callable[[AccountServices, BrowserAccess], Awaitable[None]]], None]


@pytest.fixture
def with_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> With:
    """Runs a function with the services on the store that the commands use."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_API_KEY_PEPPER", PEPPER)
    monkeypatch.setenv("HEADRACE_MONGODB_URL", database_url)
    monkeypatch.setenv("HEADRACE_PUBLIC_URL", "https://chat.example")
    Home(tmp_path).prepare()
    assert CliRunner().invoke(app, ["key"]).exit_code == 0  # makes the development account

    async def run(work: Callable[[AccountServices, BrowserAccess], Awaitable[None]]) -> None:
        async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
            await work(access, sign_in_services.browser_access(access, ChatSettings(), no_invalidation))

    return lambda work: asyncio.run(run(work))


def test_a_link_sets_the_password_of_any_account(with_store: With) -> None:
    async def sign_up(access: AccountServices, browsers: BrowserAccess) -> None:
        start = await sign_in_services.first_owner_token(access)
        await browsers.local_owner.sign_in(start)
        link = await sign_in_services.invite(access, ORGANISATION, Role.OWNER, "", "")
        await browsers.sign_up.accept_invitation(link.partition("=")[2], sign_up_input("ada"))

    with_store(sign_up)
    made = CliRunner().invoke(app, ["reset-password", "ADA@example.org"])
    link, _, token = made.output.strip().partition("=")
    assert (made.exit_code, link) == (0, "https://chat.example/#reset")
    refused = [
        CliRunner().invoke(app, ["reset-password", email]) for email in ("x@y.z", local_owner_email(ORGANISATION))
    ]
    assert [(each.exit_code, each.output.count("\n")) for each in refused] == [(1, 1)] * 2

    missing = CliRunner().invoke(app, ["reset-second-factor", "ada@example.org"])
    assert (missing.exit_code, missing.output.count("\n")) == (1, 1)

    async def use(access: AccountServices, browsers: BrowserAccess) -> None:
        await browsers.password_reset.use(token, f"new {PASSWORD}", "10.0.0.1")
        await browsers.sign_in.sign_in("ada@example.org", f"new {PASSWORD}", "10.0.0.1")
        ada = (await browsers.sign_in.sign_in("ada@example.org", f"new {PASSWORD}", "10.0.0.1")).session.user
        secret = (await browsers.second_factor.enrol(ada)).secret
        await browsers.second_factor.confirm(ada, pyotp.TOTP(secret).now())
        found = await AuditLog(MongoAuditLogStore(access.connection)).find(AuditQuery(ORGANISATION, 10))
        assert [(each.event.value, each.details["by"]) for each in found if "reset" in each.event] == [
            ("password_reset.created", "operator")
        ]

    with_store(use)
    assert CliRunner().invoke(app, ["reset-second-factor", "ada@example.org"]).exit_code == 0

    async def sign_in(access: AccountServices, browsers: BrowserAccess) -> None:
        await browsers.sign_in.sign_in("ada@example.org", f"new {PASSWORD}", "10.0.0.1")

    with_store(sign_in)
