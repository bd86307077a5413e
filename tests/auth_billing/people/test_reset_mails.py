"""Mails with reset links: the same for every address until the mail, off the request path, retried."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tenacity import wait_none

from auth_billing.access.roles import Role
from auth_billing.audit_log import AuditLog
from auth_billing.errors import MailBusy, MailNotSent, MailUnavailable, TooManySignIns, UnacceptableValue
from auth_billing.people import reset_mails
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.reset_mails import Language, Mailer, ResetMails, ResetRequest
from auth_billing.people.throttle import PER_MINUTE, RESETS_PER_HOUR
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.sessions import PeopleFixture

ORIGIN = "https://chat.example"
LINK = re.compile(rf"^{ORIGIN}/#reset=([\w-]{{43}})$", re.MULTILINE)


class ListMailer:
    """Keeps mails; fails with each of `failures` first."""

    def __init__(self, *failures: Exception) -> None:
        self.sent: list[tuple[str, str, str]] = []
        self.failures = list(failures)

    async def send(self, recipient: str, subject: str, text: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append((recipient, subject, text))

    def close(self) -> None:
        pass


def addresses() -> Iterator[str]:
    return (f"10.{number // 250}.{number % 250}.1" for number in range(10**6))


def mails_of(access: BrowserAccess, mailer: Mailer | None, audit: ListAuditLogStore | None = None) -> ResetMails:
    log = AuditLog(audit or ListAuditLogStore())
    return ResetMails(access.reset_links, access.throttle, log, mailer, ORIGIN, wait=wait_none())


@asynccontextmanager
async def sending(mails: ResetMails) -> AsyncIterator[None]:
    """Send the mails that are requested in the context, until its end."""
    task = asyncio.create_task(mails.run())
    try:
        yield
        await mails.close()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_link_is_mailed_to_the_stored_address(people: PeopleFixture, access: BrowserAccess) -> None:
    await people.sign_up_member(access, Role.MEMBER)
    mailer, audit = ListMailer(), ListAuditLogStore()
    mails = mails_of(access, mailer, audit)
    async with sending(mails):
        await mails.request(ResetRequest("ｍEMBER@example.org", "10.0.0.1", Language.PL))
    (recipient, subject, text) = mailer.sent[0]
    assert (recipient, subject) == ("member@example.org", reset_mails.SUBJECTS[Language.PL])
    found = LINK.search(text)
    assert found
    assert (await access.password_reset.use(found[1], "another password", "10.0.0.1")).email == recipient
    assert [(entry.event.value, entry.details["by"]) for entry in audit.entries] == [("password_reset.created", "mail")]


async def test_a_request_touches_no_account(people: PeopleFixture, access: BrowserAccess) -> None:
    await people.sign_up_member(access, Role.MEMBER)
    mailer = ListMailer()
    mails, looked_up = mails_of(access, mailer), people.users.absence.asked
    for email in ("member@example.org", "unknown@example.org"):
        await mails.request(ResetRequest(email, "10.0.0.1", Language.EN))
    for email in ("", "x", "x" * 100_000, "\ud800@example.org", "owner@development.localhost", "a@b.c\nBcc: d@e.f"):
        with pytest.raises(UnacceptableValue):
            await mails.request(ResetRequest(email, "10.0.0.1", Language.EN))
    assert people.users.absence.asked == looked_up
    async with sending(mails):
        pass
    assert [recipient for recipient, _, _ in mailer.sent] == ["member@example.org"]


async def test_requests_are_throttled_by_e_mail_address_and_by_network_address(access: BrowserAccess) -> None:
    mails = mails_of(access, ListMailer())
    outcomes = []
    for address, email in zip(addresses(), ["unknown@example.org", "UNKNOWN@example.org"] * 5, strict=False):
        try:
            await mails.request(ResetRequest(email, address, Language.EN))
            outcomes.append(True)
        except TooManySignIns:
            outcomes.append(False)
    assert outcomes == [True] * RESETS_PER_HOUR + [False] * (10 - RESETS_PER_HOUR)
    for number in range(PER_MINUTE):
        await mails.request(ResetRequest(f"user-{number}@example.org", "10.9.9.9", Language.EN))
    with pytest.raises(TooManySignIns):
        await mails.request(ResetRequest("last@example.org", "10.9.9.9", Language.EN))


async def test_a_mail_is_tried_again_with_the_same_link(people: PeopleFixture, access: BrowserAccess) -> None:
    await people.sign_up_member(access, Role.MEMBER)
    mailer = ListMailer(*[MailNotSent("down", permanent=False)] * 3)
    mails = mails_of(access, mailer)
    async with sending(mails):
        await mails.request(ResetRequest("member@example.org", "10.0.0.1", Language.EN))
    assert len(mailer.sent) == 1
    assert len(people.resets.resets) == 1


async def test_a_refused_mail_is_given_up_and_the_next_is_sent(people: PeopleFixture, access: BrowserAccess) -> None:
    for role in (Role.MEMBER, Role.ADMIN):
        await people.sign_up_member(access, role)
    mailer = ListMailer(MailNotSent("no such mailbox", permanent=True))
    mails = mails_of(access, mailer)
    async with sending(mails):
        for name in ("member", "admin"):
            await mails.request(ResetRequest(f"{name}@example.org", "10.0.0.1", Language.EN))
    assert len(mailer.sent) == 1


async def test_an_unexpected_error_ends_one_mail(people: PeopleFixture, access: BrowserAccess) -> None:
    for role in (Role.MEMBER, Role.ADMIN):
        await people.sign_up_member(access, role)
    mailer = ListMailer(*[RuntimeError("a bug")] * reset_mails.SENDERS)
    mails = mails_of(access, mailer)
    async with sending(mails):
        for _ in range(reset_mails.SENDERS):
            await mails.request(ResetRequest("member@example.org", "10.0.0.1", Language.EN))
        await mails.request(ResetRequest("admin@example.org", "10.0.0.1", Language.EN))
    assert len(mailer.sent) == 1


async def test_an_absent_store_delays_the_mail(people: PeopleFixture, access: BrowserAccess) -> None:
    await people.sign_up_member(access, Role.MEMBER)
    mailer = ListMailer()
    mails = mails_of(access, mailer)
    await mails.request(ResetRequest("member@example.org", "10.0.0.1", Language.EN))
    people.users.absence.away = True
    async with sending(mails):
        await asyncio.sleep(0.01)
        assert mailer.sent == []
        people.users.absence.away = False
    assert len(mailer.sent) == 1


async def test_the_queue_is_bounded(access: BrowserAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_mails, "MAX_WAITING", 1)
    mails = mails_of(access, ListMailer())
    await mails.request(ResetRequest("a@example.org", "10.0.0.1", Language.EN))
    with pytest.raises(MailBusy):
        await mails.request(ResetRequest("b@example.org", "10.0.0.1", Language.EN))


async def test_without_a_server_nothing_is_mailed(access: BrowserAccess) -> None:
    mails = mails_of(access, None)
    assert not mails.enabled
    with pytest.raises(MailUnavailable):
        await mails.request(ResetRequest("member@example.org", "10.0.0.1", Language.EN))
    async with sending(mails):
        pass
