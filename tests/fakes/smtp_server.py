"""A real SMTP server in this process, with STARTTLS or TLS by a certificate of its own, and one user."""

from __future__ import annotations

import email
import email.policy
import ssl
from email.message import EmailMessage
from types import TracebackType
from typing import Any

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from infra.launcher.readiness import free_port

USER, PASSWORD = "headrace", "the server's password"


class SmtpServerInTests:
    """Keeps the mails that it gets. `answers`: replies to the next mails instead of taking them."""

    def __init__(self, *, starttls: bool = True, tls: bool = False, login: bool = True) -> None:
        authority = trustme.CA()
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(own)
        self.trusting = ssl.create_default_context()
        authority.configure_trust(self.trusting)
        self.mails: list[EmailMessage] = []
        self.answers: list[str] = []
        options: dict[str, Any] = {"tls_context": own, "require_starttls": True} if starttls else {}
        if login:
            options |= {"authenticator": _authenticate, "auth_required": not tls, "auth_require_tls": not tls}
        self.port = free_port()
        self._controller = Controller(
            self, hostname="127.0.0.1", port=self.port, ssl_context=own if tls else None, ready_timeout=20, **options
        )

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        if self.answers:
            return self.answers.pop(0)
        assert isinstance(envelope.content, bytes)
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        message["X-Envelope"] = ", ".join([str(envelope.mail_from), *envelope.rcpt_tos])
        self.mails.append(message)
        return "250 taken"

    def __enter__(self) -> SmtpServerInTests:
        self._controller.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._controller.stop()


def _authenticate(_server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: Any) -> AuthResult:
    given = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=given)
