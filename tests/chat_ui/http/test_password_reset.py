"""Forgotten passwords over HTTP: links by administrators and by mail, and what the responses reveal."""

from __future__ import annotations

import asyncio
import re

import pytest

from auth_billing.access.roles import Role
from auth_billing.people.smtp import SmtpMailer, SmtpServer, SmtpTls
from chat_ui.http.api import create_api
from tests.chat_ui.browser_client import Browser
from tests.chat_ui.http.test_api import Scene, error_of, scene
from tests.fakes.chat import PUBLIC_URL
from tests.fakes.sessions import PASSWORD
from tests.fakes.smtp_server import PASSWORD as SMTP_PASSWORD
from tests.fakes.smtp_server import USER, SmtpServerInTests

__all__ = ["scene"]

FRESH = "another password"


async def test_an_administrators_link_sets_a_new_password(scene: Scene) -> None:
    admin, member = await scene.browser(Role.ADMIN), await scene.browser(Role.MEMBER)
    user = (await member.get("/me")).json()["user"]["id"]
    made = await admin.send("POST", f"/people/{user}/password-reset")
    assert (made.status_code, list(made.json())) == (201, ["token"])
    body = {"token": made.json()["token"], "password": FRESH}
    stranger = Browser(scene.app, address="10.7.7.7")
    assert (await stranger.send("POST", "/password-reset", body)).status_code == 204
    assert stranger.cookies == {}
    assert error_of(await stranger.send("POST", "/password-reset", body)) == "reset_link_void"
    assert (await member.send("DELETE", "/session")).status_code == 401
    assert (await stranger.sign_in("member")).status_code == 401
    assert (await stranger.sign_in("member", FRESH)).status_code == 200
    entries = [each for each in scene.audit.entries if "reset" in each.event]
    assert [(each.event.value, each.actor.email, each.target) for each in entries] == [
        ("password_reset.created", "admin@example.org", user),
        ("password.reset", "member@example.org", user),
    ]
    assert made.json()["token"] not in repr(scene.audit.entries)


async def test_nobody_makes_links_for_equals_or_for_other_organisations(scene: Scene) -> None:
    browsers = {role: await scene.browser(role) for role in Role}
    users = {role: (await browser.get("/me")).json()["user"]["id"] for role, browser in browsers.items()}
    refused = [(Role.ADMIN, Role.OWNER), (Role.ADMIN, Role.ADMIN), (Role.MEMBER, Role.VIEWER), (Role.OWNER, Role.OWNER)]
    for own, other in refused:
        made = await browsers[own].send("POST", f"/people/{users[other]}/password-reset")
        assert error_of(made) == "not_permitted"
    foreign = Browser(scene.app, address="10.8.8.8")
    await foreign.sign_up(await scene.people.invite(Role.OWNER, "org-other"), "foreign")
    assert error_of(await foreign.send("POST", f"/people/{users[Role.MEMBER]}/password-reset")) == "not_found"


async def test_the_link_is_mailed_and_responses_do_not_depend_on_the_account(scene: Scene) -> None:
    await scene.browser(Role.MEMBER)
    with SmtpServerInTests() as server:
        account = SmtpServer("127.0.0.1", server.port, SmtpTls.STARTTLS, "chat@example.org", USER, SMTP_PASSWORD)
        chat = scene.chats.chat(scene.people.process(), scene.audit, mailer=SmtpMailer(account, server.trusting))
        browser = Browser(create_api(chat), "https://evil.example", "10.7.7.7")  # the Host header
        task = asyncio.create_task(chat.reset_mails.run())
        try:
            assert (await browser.get("/password-reset")).json() == {"by_mail": True}
            answers = [
                await browser.send("POST", "/password-reset/mail", {"email": email})
                for email in ("member@example.org", "unknown@example.org")
            ]
            malformed = await browser.send("POST", "/password-reset/mail", {"email": "not an address"})
            await chat.reset_mails.close()
        finally:
            task.cancel()
    assert {(each.status_code, each.content) for each in answers} == {(204, b"")}
    assert error_of(malformed) == "invalid_value"
    assert [mail["To"] for mail in server.mails] == ["member@example.org"]
    link = re.search(r"https://\S+#reset=(\S+)", server.mails[0].get_content())
    assert link
    assert link[0].startswith(f"{PUBLIC_URL}/#")
    body = {"token": link[1], "password": FRESH}
    assert (await browser.send("POST", "/password-reset", body)).status_code == 204


async def test_without_a_mail_server_the_page_learns_so(scene: Scene) -> None:
    browser = Browser(scene.app)
    assert (await browser.get("/password-reset")).json() == {"by_mail": False}
    asked = await browser.send("POST", "/password-reset/mail", {"email": "member@example.org"})
    assert error_of(asked) == "no_mail"


@pytest.mark.parametrize("body", [{"token": 1, "password": PASSWORD}, {"token": "x"}, {}, {"token": "\ud800"}], ids=str)
async def test_malformed_bodies_are_refused(scene: Scene, body: dict[str, object]) -> None:
    refused = await Browser(scene.app).send("POST", "/password-reset", body)
    assert error_of(refused) in ("invalid_value", "invalid_json")
