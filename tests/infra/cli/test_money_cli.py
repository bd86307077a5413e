"""The money commands: exact amounts, one-line errors, idempotent references."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from auth_billing.access.roles import Role
from auth_billing.audit.auditor import Auditor
from auth_billing.audit_log import AuditQuery
from auth_billing.keys.key_invalidation import no_invalidation
from auth_billing.keys.service_accounts import ServiceAccount
from auth_billing.people.people_records import User
from auth_billing.prices import price_file
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.price_file import Source
from auth_billing.rate_limits.limits import UNLIMITED, Limits, Subject, SubjectKind, person_subject, project_subject
from auth_billing.store.connection import StoreConnection
from auth_billing.store.prices import MongoPriceStore
from auth_billing.store.service_accounts import MongoServiceAccountStore
from infra.accounts import account_services
from infra.cli import money_commands, served_models
from infra.cli.main import app
from infra.home.home import Home
from runtime.lifecycle import StartupError

PEPPER = "a pepper of thirty-two characters and more"
FREE = Source(Path("prices.toml"), b'[default]\nembedding = "0"')
Money = Callable[..., str]


@pytest.fixture
def money(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Money:
    """Runs a command; returns its output, prefixed by the exit status if that is not 0."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setattr(money_commands, "Auditor", partial(Auditor, pause=0.0))
    monkeypatch.setattr(served_models, "served_models", lambda _home: {"m"})

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        if isinstance(done.exception, StartupError):
            return f"cannot start: {done.exception}"
        return done.output if done.exit_code == 0 else f"{done.exit_code}: {done.output}"

    return run


def test_a_price_file_is_shown_or_refused_without_a_store(money: Money, tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[models.m]\ninput = "0.15"\noutput = "0.6"\ntiers.flex = "0.2"')
    shown = money("prices", "--check", str(file))
    assert "0.15" in shown
    assert "0.03" in shown
    file.write_text('[models.m]\ninput = "0.00015"\noutput = "0.6"')
    assert "no whole number of nano-USD" in money("prices", "--check", str(file))


def test_without_a_store_it_says_what_to_set(money: Money) -> None:
    said = money("credit", "show", "development")
    assert said.startswith("cannot start: nothing runs in")
    assert "HEADRACE_MONGODB_URL" in said


async def spoil(database_url: str) -> None:
    connection = StoreConnection(database_url)
    await connection.durable("accounts").update_one({"_id": "development"}, {"$inc": {"available": 1}})
    connection.close()


@pytest.mark.store
def test_credit_budget_and_audit_commands(
    money: Money, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepare() -> None:
        async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
            await access.renew_development_key()
            await access.renew_development_key()

    asyncio.run(prepare())
    monkeypatch.setenv("HEADRACE_MONGODB_URL", database_url)
    top_up = ("credit", "top-up", "development", "12.50", "--reference", "r1")
    assert [money(*top_up) for _ in range(2)] == ["topup: 12.50 USD to development (reference r1)\n"] * 2
    assert money("credit", "top-up", "development", "9", "--reference", "r1").startswith("1: headrace: the reference")
    shown = money("credit", "show", "development")
    assert "1000012.50" in shown  # with what the development account is given once
    assert "promo" in shown
    assert money("credit", "grant", "unknown", "1") == "1: headrace: no organisation unknown\n"
    assert money("credit", "grant", "development", "1e3").startswith("1: headrace: an amount is written like 12.50")
    assert money("credit", "refund", "development", "chatcmpl-0").startswith("1: headrace: no job 'chatcmpl-0'")
    assert "100.00" in money("budget", "development", "100")
    assert "project:development-default" in money("budget", "development", "5", "--project", "development-default")
    assert money("budget", "development", "5", "--key", "0000000000").startswith("1: headrace: no API key")
    key_id = money("keys", "create", "spender").split("_")[2]
    assert f"key:{key_id}" in money("budget", "development", "5", "--key", f"key_{key_id}")  # as `keys list` shows it
    assert money("limits", "development", "7 requests/minute", "--key", f"key_{key_id}") == "7 requests/minute\n"
    assert money("limits", "development", "--key", key_id) == "7 requests/minute\n"
    assert money("budget", "development", "5", "--project", "p", "--key", "k").startswith("2:")
    assert money("credit", "close", "development") == "development is closed\n"
    assert "development (closed)" in money("credit", "show", "development")
    assert money("credit", "reopen", "development") == "development is open\n"
    assert "(closed)" not in money("credit", "show", "development")
    assert money("audit").endswith("no difference\n")
    asyncio.run(spoil(database_url))
    audited = money("audit")
    assert audited.startswith("1: ")
    assert "credited is not available + held + spent" in audited
    assert "project:" not in money("budget", "development", "--project", "development-default", "--remove")


@pytest.mark.store
def test_the_operators_rate_limits(
    money: Money, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def in_force(subject: Subject, wish: Limits) -> Limits:
        """Return a subject's limits after an administrator has changed them."""
        async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
            await access.renew_development_key()
            defaults = {SubjectKind.PROJECT: Limits(requests_per_minute=60)}
            return await access.rate_limiter("gateway-1", defaults).book.change(subject, wish)

    project = project_subject("development-default")
    assert asyncio.run(in_force(project, Limits(requests_per_minute=UNLIMITED))).requests_per_minute == 60
    monkeypatch.setenv("HEADRACE_MONGODB_URL", database_url)
    assert money("limits", "development") == "none\n"
    assert money("limits", "development", "900 requests/minute, 8 concurrent") == "900 requests/minute, 8 concurrent\n"
    of_project = ("limits", "development", "--project", "development-default")
    assert money(*of_project, "600 requests/minute") == "600 requests/minute\n"
    assert money(*of_project, "9 tokens/minute") == "600 requests/minute, 9 tokens/minute\n"
    assert money(*of_project, "--model", "m", "5 requests/day") == "5 requests/day\n"
    assert money("limits", "development") == "900 requests/minute, 8 concurrent\n"
    raised = asyncio.run(in_force(project, Limits(requests_per_minute=700, tokens_per_minute=UNLIMITED)))
    assert raised == Limits(requests_per_minute=600, tokens_per_minute=9)
    assert money("limits", "development", "9 apples").startswith("1: headrace: '9 apples' is no limit")
    assert money("limits", "unknown", "9 concurrent") == "1: headrace: no organisation unknown\n"
    assert money("limits", "development", "9 concurrent", "--project", "p").startswith("1: headrace: no project")
    assert money("limits", "development", "9 concurrent", "--key", "k").startswith("1: headrace: no API key")
    of_model = ("limits", "development", "--model", "m")
    assert money(*of_model, "9 concurrent") == "9 concurrent\n"
    assert money(*of_model, "--remove") == money(*of_model) == "none\n"
    of_unknown = ("limits", "development", "--model", "nope")
    limit, note = money(*of_unknown, "9 concurrent").splitlines()
    assert (limit, money(*of_unknown).splitlines()) == ("9 concurrent", [limit, note])
    assert note.startswith("note: no worker serves nope now")
    assert money(*of_unknown, "--remove") == "none\n"
    assert money("limits", "development") == "900 requests/minute, 8 concurrent\n"
    for wrong in (("--person", "a", "--model", "m"), ("--key", "k", "--person", "a"), ("9 concurrent", "--remove")):
        assert money("limits", "development", *wrong).startswith("2:")


@pytest.mark.store
def test_the_operators_rate_limits_of_a_person(
    money: Money, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepare() -> None:
        async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
            await access.renew_development_key()
            members = access.administration(lambda _: None).members
            for name in ("ada", "eve"):
                await members.users.add(User(f"user-{name}", f"{name}@example.org", name, 1.0, "hash"))
            await members.join("development", "user-ada", Role.MEMBER, 1.0)
            account = ServiceAccount("svc_acct_1", "development", "development-default", "ci", 1.0)
            await MongoServiceAccountStore(access.connection).add(account)

    async def in_force() -> Limits:
        async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
            book = access.rate_limiter("gateway-1", {SubjectKind.PERSON: Limits(requests_per_minute=60)}).book
            return (await book.limits_of([person_subject("development", "user-ada")]))[0]

    asyncio.run(prepare())
    monkeypatch.setenv("HEADRACE_MONGODB_URL", database_url)
    assert money("limits", "development", "600 requests/minute", "--person", "Ada@Example.org").startswith("600 req")
    assert money("limits", "development", "--person", "user-ada") == "600 requests/minute\n"
    assert asyncio.run(in_force()) == Limits(requests_per_minute=600)
    assert money("limits", "development", "--person", "ada@example.org", "--remove") == "none\n"
    assert asyncio.run(in_force()) == Limits(requests_per_minute=60)
    assert money("limits", "development", "9 concurrent", "--person", "svc_acct_1") == "9 concurrent\n"
    for stranger in ("svc_acct_2", "eve@example.org", "user-eve", "nobody"):
        refused = money("limits", "development", "9 concurrent", "--person", stranger)
        assert refused == f"1: headrace: no person {stranger} in development\n"


@pytest.mark.store
def test_installation_commands(
    money: Money, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepare() -> None:
        async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
            await access.renew_development_key()
            await PriceBook(MongoPriceStore(access.connection)).unlock(price_file.parse(FREE))

    async def audit_entries() -> list[str]:
        async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
            found = await access.administration(no_invalidation).audit_log.find(AuditQuery("development", 100))
            return sorted(each.event for each in found)

    asyncio.run(prepare())
    monkeypatch.setenv("HEADRACE_MONGODB_URL", database_url)
    gift = ("credit", "grant", "development", "2", "--reference", "r", "--reason", "a gift")
    assert [money(*gift) for _ in range(2)] == ["promo: 2.00 USD to development (reference r)\n"] * 2
    back = ("credit", "withdraw", "development", "1.5", "--reference", "r", "--reason", "mistake")
    assert [money(*back) for _ in range(2)] == ["withdrawal: 1.50 USD from development (reference r)\n"] * 2
    assert money("credit", "withdraw", "development", "9000000").startswith("1: headrace: 1000000.50 USD are available")
    shown = money("credit", "show", "development")
    assert all(text in shown for text in ("mistake", "-1.50", "1000000.50"))
    assert money("prices", "set", "tiny", "--input", "0.15", "--output", "0.6", "--flex", "0.2").startswith("version 2")
    assert all(text in money("prices") for text in ("tiny", "0.15", "0.12", "version 2"))
    assert "input" in money("prices", "set", "tiny", "--input", "-1")
    assert money("prices", "set", "painter", "--unit", "512x512=0.004", "--unit", "call=1").startswith("version 3")
    assert all(text in money("prices") for text in ("painter", "512x512 0.004", "call 1.00"))
    assert "units" in money("prices", "set", "painter", "--unit", "a.b=1")
    assert "must have" in money("prices", "set", "painter")
    assert money("limits", "development", "--model", "painter") == "none\n"  # priced, and not served: no note
    assert money("prices", "remove", "painter").startswith("version 4")
    assert money("prices", "remove", "painter").startswith("1: headrace: painter has no prices")
    assert money("prices", "remove", "tiny").startswith("version 5")
    assert money("prices", "remove", "default").startswith("1: headrace: the last price")
    assert "1000000.50" in money("organisations")
    assert "in all" not in money("usage")
    assert money("usage", "--csv").startswith('"day","organization_id",')
    assert asyncio.run(audit_entries()) == sorted(["credit.granted", "credit.withdrawn", *["prices.updated"] * 4])
    assert "no difference" in money("audit")
