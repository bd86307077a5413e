"""The SMTP client against a real server: encrypted, authenticated, one recipient, refusals told apart."""

from __future__ import annotations

import ssl
from dataclasses import replace

import pytest

from auth_billing.errors import MailNotSent
from auth_billing.people.smtp import SmtpMailer, SmtpServer, SmtpTls
from tests.fakes.smtp_server import PASSWORD, USER, SmtpServerInTests


def account(server: SmtpServerInTests, tls: SmtpTls = SmtpTls.STARTTLS) -> SmtpServer:
    return SmtpServer("127.0.0.1", server.port, tls, "chat@example.org", USER, PASSWORD)


async def send(account: SmtpServer, trusting: ssl.SSLContext | None, recipient: str = "ada@example.org") -> None:
    mailer = SmtpMailer(account, trusting)
    try:
        await mailer.send(recipient, "Zmiana hasła", "Naciśnij:\n\nhttps://chat.example/#reset=x\n")
    finally:
        mailer.close()


@pytest.mark.parametrize("tls", [SmtpTls.STARTTLS, SmtpTls.TLS])
async def test_a_mail_is_sent_encrypted_and_authenticated(tls: SmtpTls) -> None:
    with SmtpServerInTests(starttls=tls is SmtpTls.STARTTLS, tls=tls is SmtpTls.TLS) as server:
        await send(account(server, tls), server.trusting, "ada+o'hara@example.org")
    (mail,) = server.mails
    assert mail["X-Envelope"] == "chat@example.org, ada+o'hara@example.org"
    assert (mail["From"], mail["To"]) == ("chat@example.org", "ada+o'hara@example.org")
    assert (mail["Subject"], mail["Auto-Submitted"]) == ("Zmiana hasła", "auto-generated")
    assert mail["Message-ID"].endswith("@example.org>")
    assert mail.get_content().replace("\r\n", "\n") == "Naciśnij:\n\nhttps://chat.example/#reset=x\n"


async def test_no_address_is_decoded_to_further_headers() -> None:
    with SmtpServerInTests() as server, pytest.raises(MailNotSent) as caught:
        await send(account(server), server.trusting, "=?utf-8?q?x=0D=0ASubject=3A=20Pay=0D=0A=0D=0Ahere?=@example.org")
    assert caught.value.permanent
    assert server.mails == []


async def test_a_relay_without_encryption_gets_no_password() -> None:
    with SmtpServerInTests(starttls=False, login=False) as server:
        await send(replace(account(server, SmtpTls.NONE), user="", password=""), None)
    assert len(server.mails) == 1


async def test_an_unknown_certificate_is_refused() -> None:
    with SmtpServerInTests() as server, pytest.raises(MailNotSent, match="certificate") as caught:
        await send(account(server), None)
    assert not caught.value.permanent
    assert server.mails == []


async def test_a_server_without_starttls_gets_neither_password_nor_mail() -> None:
    with SmtpServerInTests(starttls=False, login=False) as server, pytest.raises(MailNotSent, match="STARTTLS"):
        await send(account(server), server.trusting)
    assert server.mails == []


@pytest.mark.parametrize(("answer", "permanent"), [("451 later", False), ("550 no such mailbox", True)])
async def test_only_refusals_for_good_are_permanent(answer: str, permanent: bool) -> None:
    with SmtpServerInTests() as server:
        server.answers = [answer]
        with pytest.raises(MailNotSent) as caught:
            await send(account(server), server.trusting)
        assert caught.value.permanent == permanent


async def test_a_wrong_password_and_an_absent_server_are_tried_again() -> None:
    with SmtpServerInTests() as server:
        settings = account(server)
        with pytest.raises(MailNotSent) as caught:
            await send(replace(settings, password="wrong"), server.trusting)
        assert not caught.value.permanent
        assert "wrong" not in str(caught.value)
    with pytest.raises(MailNotSent) as caught:
        await send(settings, server.trusting)
    assert not caught.value.permanent
