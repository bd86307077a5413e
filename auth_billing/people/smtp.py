"""SMTP client: sends plain-text mails to the operator's server (RFC 6409), each over a connection of its own.

Only the operator sets the server. Certificates are checked, and a password is never sent unencrypted.
"""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from enum import StrEnum

from auth_billing.errors import MailNotSent

TIMEOUT = 20.0
"""Seconds for each step of the SMTP dialogue."""
THREADS = 2


class SmtpTls(StrEnum):
    """Encryption of the connections to the SMTP server."""

    STARTTLS = "starttls"
    """Upgraded by STARTTLS, without which nothing is sent; usually port 587."""
    TLS = "tls"
    """Encrypted from the beginning; usually port 465."""
    NONE = "none"
    """Not encrypted: for a relay on the same machine."""


@dataclass(frozen=True)
class SmtpServer:
    """The SMTP server that takes the installation's mails, and the sender's address."""

    host: str
    port: int
    tls: SmtpTls
    sender: str
    user: str = ""
    """Empty: no authentication."""
    password: str = field(default="", repr=False)


class SmtpMailer:
    """Sends mails through one SMTP server, on threads of its own; close it.

    `tls`: the client's TLS settings, by default the system's certificate authorities.
    """

    def __init__(self, server: SmtpServer, tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._tls = tls or ssl.create_default_context()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="smtp")

    async def send(self, recipient: str, subject: str, text: str) -> None:
        """Send a plain-text mail to one e-mail address, over a new connection to the SMTP server.

        Raises:
            MailNotSent: the server can't be reached, or did not accept the mail.
        """
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = self._server.sender, _address(recipient), subject
        message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain=self._server.sender.rpartition("@")[2])
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office replies
        message.set_content(text)
        await asyncio.get_running_loop().run_in_executor(self._pool, self._submit, message, recipient)

    def close(self) -> None:
        """Shut down the threads that send mails; mails that wait for a thread are not sent. Does not block."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, message: EmailMessage, recipient: str) -> None:
        try:
            with self._connection() as connection:
                if self._server.tls is SmtpTls.STARTTLS:
                    connection.starttls(context=self._tls)
                if self._server.user:
                    connection.login(self._server.user, self._server.password)
                connection.send_message(message, self._server.sender, [recipient])
        except (OSError, smtplib.SMTPException, UnicodeError) as error:
            raise MailNotSent(f"{type(error).__name__}: {error}", permanent=_is_permanent(error)) from error

    def _connection(self) -> smtplib.SMTP:
        server = self._server
        if server.tls is SmtpTls.TLS:
            return smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT, context=self._tls)
        return smtplib.SMTP(server.host, server.port, timeout=TIMEOUT)


def _address(email: str) -> Address:
    """Return the address as the only one of its header, however its local part is spelled.

    Raises:
        MailNotSent: the address has an encoded word (RFC 2047), which the header would decode to further headers.
    """
    if "=?" in email:
        raise MailNotSent("the address has an encoded word", permanent=True)
    return Address(username=email.rpartition("@")[0], domain=email.rpartition("@")[2])


def _is_permanent(error: Exception) -> bool:
    """Whether the server refuses this mail itself (RFC 5321, section 4.2.1: 5yz), so that a retry is refused too."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= 500 for code, _ in error.recipients.values())
    if isinstance(error, smtplib.SMTPResponseException):
        return error.smtp_code >= 500 and not isinstance(error, smtplib.SMTPAuthenticationError)
    return isinstance(error, smtplib.SMTPNotSupportedError | UnicodeError)
