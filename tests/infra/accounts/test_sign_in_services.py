"""Sign-up of the first owner, and invitations by `headrace invite`, on a real store."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from auth_billing.access.roles import Role
from auth_billing.development_account import ORGANISATION
from auth_billing.errors import InvitationVoid
from auth_billing.keys.key_invalidation import no_invalidation
from auth_billing.people.smtp import SmtpTls
from auth_billing.people.throttle import PER_MINUTE
from auth_billing.store.indexes import create_indexes
from chat_ui.settings import ChatSettings
from infra.accounts import account_services, sign_in_services
from infra.home.home import Home
from runtime.lifecycle import EXIT_CANNOT_START, StartupError
from tests.chat_ui.browser_client import Browser
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.infra.accounts.test_account_services import PEPPER
from tests.infra.cli.test_main import headrace

URL = "http://127.0.0.1:8000"


@pytest.mark.store
async def test_the_first_owner_signs_up_once_and_invites_members(tmp_path: Path, database_url: str) -> None:
    from chat_ui.http.api import create_api

    async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
        await create_indexes(access.connection)
        await access.write_development_key(URL)
        lost = await sign_in_services.first_owner_token(access)
        token = await sign_in_services.first_owner_token(access)
        chat = ChatHouse().chat(
            sign_in_services.browser_access(access, ChatSettings(), no_invalidation), ListAuditLogStore()
        )
        with pytest.raises(InvitationVoid):
            await chat.access.invitations.open(lost)

        local = Browser(create_api(chat), URL, "10.0.0.3")
        assert (await local.send("POST", "/start", {"invitation": token})).json()["role"] == "owner"
        assert (await local.send("POST", "/start", {"invitation": token})).status_code == 404
        token = await sign_in_services.first_owner_token(access)
        assert (await local.send("POST", "/start", {"invitation": token})).json()["user"]["name"] == "Owner"
        token = await sign_in_services.first_owner_token(access)
        owner = Browser(create_api(chat), URL)
        assert (await owner.sign_up(token, "ada")).json()["role"] == "owner"
        assert await sign_in_services.first_owner_token(access) == ""
        assert (await owner.send("POST", "/session/refresh")).status_code == 204
        made = await owner.send("POST", "/invitations", {"role": "member"})
        member = Browser(create_api(chat), URL, "10.0.0.2")
        assert (await member.sign_up(made.json()["token"], "bob")).json()["project"] == "development-default"
        people = (await owner.get("/people")).json()["people"]
        bob = next(each["id"] for each in people if each["role"] == "member")
        assert (await owner.send("DELETE", f"/people/{bob}")).status_code == 204
        assert (await member.sign_in("bob")).status_code == 401

        tries = [(await member.sign_in("ada", "wrong password")).status_code for _ in range(PER_MINUTE + 1)]
        assert 429 in tries
        again = headrace(
            "invite",
            "--role",
            "viewer",
            home=tmp_path,
            HEADRACE_MONGODB_URL=database_url,
            HEADRACE_API_KEY_PEPPER=PEPPER,
        )
        opened = await chat.access.invitations.open(again.stdout.strip().partition("=")[2])
        assert (opened.organisation, opened.role, opened.invited_by) == (ORGANISATION, Role.VIEWER, "")


@pytest.mark.parametrize(
    ("arguments", "complaint"), [(["--role", "king"], "king"), ([], "HEADRACE_MONGODB_URL")], ids=str
)
def test_errors_are_one_line(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    done = headrace("invite", *arguments, home=tmp_path)
    assert done.returncode == EXIT_CANNOT_START
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"public_url": ""}, "HEADRACE_PUBLIC_URL"),
        ({"smtp_sender": ""}, "HEADRACE_SMTP_SENDER"),
        ({"smtp_sender": "chat@example.org\r\nBcc: x@y.z"}, "HEADRACE_SMTP_SENDER"),
        ({"smtp_password_file": ""}, "HEADRACE_SMTP_PASSWORD_FILE"),
        ({"smtp_user": ""}, "HEADRACE_SMTP_USER"),
        ({"smtp_tls": "none"}, "HEADRACE_SMTP_TLS"),
        ({"smtp_password_file": "/nowhere"}, "HEADRACE_SMTP_PASSWORD_FILE"),
    ],
    ids=str,
)
def test_incomplete_settings_of_the_mail_server_end_the_start(
    tmp_path: Path, change: dict[str, str], complaint: str
) -> None:
    (tmp_path / "password").write_text("the server's password\n")
    complete = {
        "public_url": "https://chat.example",
        "smtp_host": "smtp.example.org",
        "smtp_sender": "chat@example.org",
        "smtp_user": "headrace",
        "smtp_password_file": str(tmp_path / "password"),
    }
    server = sign_in_services.smtp_server(ChatSettings.model_validate(complete))
    assert (server.port, server.tls, server.password) == (587, SmtpTls.STARTTLS, "the server's password")
    assert server.password not in repr(server)
    with pytest.raises(StartupError, match=complaint):
        sign_in_services.smtp_server(ChatSettings.model_validate(complete | change))


@pytest.mark.parametrize(
    "url", ["chat.example", "ftp://chat.example", "https://chat.example/", "https://a@chat.example"]
)
def test_the_public_url_is_an_origin(url: str) -> None:
    with pytest.raises(ValidationError):
        ChatSettings.model_validate({"public_url": url})
