"""Forgotten password and second factor in a real Chromium, over the real API and mail server, with stores in memory."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyotp
import pytest
from playwright.async_api import Page, expect
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from auth_billing.access.roles import Role
from auth_billing.people.smtp import SmtpMailer, SmtpServer, SmtpTls
from chat_ui.http.api import create_api
from chat_ui.http.page import create_app
from chat_ui.services import ChatServices
from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.conftest import DIST, StubServer
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.fakes.sessions import PASSWORD, PeopleFixture
from tests.fakes.smtp_server import PASSWORD as SMTP_PASSWORD
from tests.fakes.smtp_server import USER, SmtpServerInTests

FRESH = "a sentence is a better password"
PICTURES = os.environ.get("HEADRACE_SCREENSHOTS")


def application(chat: ChatServices) -> Starlette:
    """Page and API on one origin, with the task that sends mails."""
    page, api = create_app(DIST), create_api(chat)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(chat.reset_mails.run())
        yield
        task.cancel()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await (api if scope["path"].startswith("/api/") else page)(scope, receive, send)

    app = Starlette(lifespan=lifespan)
    app.router.default = serve
    return app


@pytest.fixture
def people() -> Iterator[PeopleFixture]:
    people = PeopleFixture()
    yield people
    people.passwords.close()


async def picture(page: Page, name: str) -> None:
    if PICTURES is not None:
        await page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


async def sign_in(page: Page, name: str, password: str) -> None:
    await page.get_by_label("E-mail address").fill(f"{name}@example.org")
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def test_forgotten_password_and_second_factor(people: PeopleFixture) -> None:
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    access = people.process()
    for role in (Role.ADMIN, Role.MEMBER):
        await people.sign_up_member(access, role)
    with SmtpServerInTests() as mail:
        account = SmtpServer("127.0.0.1", mail.port, SmtpTls.STARTTLS, "chat@example.org", USER, SMTP_PASSWORD)
        mailer = SmtpMailer(account, mail.trusting)
        chat = ChatHouse().chat(access, ListAuditLogStore(), mailer=mailer)
        with StubServer(application(chat)) as origin:
            async with chromium() as browser:
                visit = await Visit.to(origin, browser)
                await forgotten_password(visit, mail)
                app = await enrolment(visit, people)
                await code_after_the_password(visit, people, app)
                admin = await Visit.to(origin, browser)
                await reset_by_an_administrator(admin, visit)
                for each in (visit, admin):
                    await each.expect_clean()
        mailer.close()


async def forgotten_password(visit: Visit, mail: SmtpServerInTests) -> None:
    page = visit.page
    await page.goto(visit.origin)
    await page.get_by_role("link", name="Forgot your password?").click()
    await page.get_by_label("E-mail address").fill("member@example.org")
    await picture(page, "forgot-password")
    assert await visit.violations() == []
    await page.get_by_role("button", name="Send me a link").click()
    await expect(page.get_by_role("status").filter(has_text="a mail with a link")).to_be_visible()
    await until(lambda: mail.mails != [])
    link = re.search(r"#reset=\S+", mail.mails[0].get_content())
    assert link
    await page.goto(f"{visit.origin}/{link[0]}")
    await page.get_by_label("New password").fill(FRESH)
    await picture(page, "reset-password")
    assert await visit.violations() == []
    await page.get_by_role("button", name="Set the password").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await sign_in(page, "member", FRESH)
    await expect(page.get_by_label("Write a message")).to_be_visible()


async def enrolment(visit: Visit, people: PeopleFixture) -> pyotp.TOTP:
    page = visit.page
    await page.goto(f"{visit.origin}/account")
    section = page.get_by_role("region", name="Second factor")
    await section.get_by_label("Password").fill(FRESH)
    await section.get_by_role("button", name="Set up a second factor").click()
    image = section.get_by_role("img", name="QR code")
    await expect(image).to_be_visible()
    assert await image.evaluate("image => image.complete && image.naturalWidth > 100")
    app = pyotp.TOTP(await section.locator("code").inner_text())
    await picture(page, "second-factor-qr")
    await section.get_by_label("Code").fill("000000")
    assert await visit.violations() == []
    await section.get_by_label("Code").fill(app.at(int(people.clock())))
    await section.get_by_role("button", name="Switch it on").click()
    await expect(section.get_by_role("listitem")).to_have_count(10)
    await picture(page, "recovery-codes")
    await section.get_by_role("button", name="I have kept them").click()
    await expect(section.get_by_text("Recovery codes left: 10.")).to_be_visible()
    return app


async def code_after_the_password(visit: Visit, people: PeopleFixture, app: pyotp.TOTP) -> None:
    page = visit.page
    await page.get_by_role("button", name="Sign out here").click()
    await sign_in(page, "member", FRESH)
    code = page.get_by_label("Code")
    await code.fill("123")
    await picture(page, "second-factor-code")
    assert await visit.violations() == []
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert").filter(has_text="The code is wrong")).to_be_visible()
    people.clock.now += 30  # a code counts once
    await code.fill(app.at(int(people.clock())))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_label("Write a message")).to_be_visible()


async def reset_by_an_administrator(admin: Visit, member: Visit) -> None:
    page = admin.page
    await page.goto(f"{admin.origin}/admin/people")
    await sign_in(page, "admin", PASSWORD)
    row = page.get_by_role("row").filter(has_text="member@example.org")
    await row.get_by_role("button", name="Remove the second factor of member?").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(row.get_by_role("button", name="Remove the second factor")).to_have_count(0)
    await row.get_by_role("button", name="Reset the password of member").click()
    await page.get_by_role("dialog").get_by_role("button", name="Make a link").click()
    await picture(page, "reset-link")
    assert await admin.violations() == []
    link = await page.get_by_label("Link").input_value()
    await member.page.goto(link)
    await member.page.get_by_label("New password").fill(f"{FRESH} again")
    await member.page.get_by_role("button", name="Set the password").click()
    await expect(member.page.get_by_role("heading", name="Sign in")).to_be_visible()
    await sign_in(member.page, "member", f"{FRESH} again")
    await expect(member.page.get_by_label("Write a message")).to_be_visible()


async def until(ready: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not ready():
            await asyncio.sleep(0.05)
