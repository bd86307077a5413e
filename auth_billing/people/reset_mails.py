"""Mails password reset links off the request path, so that a request takes the same time for every e-mail address.

A request is queued in this process's memory: the queue is bounded, a mail that the SMTP server does not take is tried
again for some minutes, and mails that wait when the process ends are lost, so the user asks for another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

import structlog
from tenacity.wait import wait_base

from auth_billing.audit_log import AuditActor, AuditLog, Event
from auth_billing.errors import AccountError, MailBusy, MailNotSent, MailUnavailable, NotPermitted
from auth_billing.people.account_events import record_account_event
from auth_billing.people.input_normalisation import checked_email, fold_email
from auth_billing.people.password_reset import ResetLinks
from auth_billing.people.people_records import User
from auth_billing.people.throttle import SignInThrottle
from runtime.retry import Backoff, exponential_backoff

MAX_WAITING = 1000
"""Requests that may wait for a sender; more are refused (`MailBusy`)."""
SENDERS = 4
RETRY_PERIOD = 600.0
"""Seconds after the first try in which a mail is tried again."""
CLOSING_PERIOD = 5.0
"""Seconds that `close` waits for mails in the queue."""

ResultT = TypeVar("ResultT")

_WAIT = exponential_backoff(first=1.0, longest=60.0)
_log = structlog.get_logger(__name__)


class Language(StrEnum):
    """Language of a mail: one of those of the chat page."""

    EN = "en"
    PL = "pl"


SUBJECTS = {Language.EN: "Reset your password", Language.PL: "Zmiana zapomnianego hasła"}
TEXTS = {
    Language.EN: """A new password was requested for your account at {origin}.

Set it with this link, which works once, within an hour:

{link}

If you did not request it, ignore this mail: your password stays as it is.
""",
    Language.PL: """Poproszono o nowe hasło do Twojego konta w {origin}.

Ustaw je przez ten odnośnik; działa on raz, w ciągu godziny:

{link}

Jeśli nie o to prosisz, zignoruj tę wiadomość: hasło pozostanie bez zmian.
""",
}


class Mailer(Protocol):
    """Sends mails; `smtp.SmtpMailer` in production."""

    async def send(self, recipient: str, subject: str, text: str) -> None:
        """Send a plain-text mail to one e-mail address.

        Raises:
            MailNotSent: the mail is not accepted.
        """
        ...

    def close(self) -> None:
        """Release the threads of the mailer; it can't send mails afterwards."""
        ...


@dataclass(frozen=True)
class ResetRequest:
    """A request to mail a reset link to the user with an e-mail address."""

    email: str
    address: str
    """Network address of the client that asked."""
    language: Language


@dataclass(eq=False, repr=False)
class ResetMails:
    """Takes requests for reset links, and mails the links to users who exist.

    Args:
        links: makes the links.
        throttle: limits the requests per network address and per e-mail address.
        audit_log: gets an entry for each link.
        mailer: `None`: the installation sends no mail.
        origin: the public origin that links begin with, such as `https://chat.example.org`.
        wait: the pause between two tries of a mail.
    """

    links: ResetLinks
    throttle: SignInThrottle
    audit_log: AuditLog
    mailer: Mailer | None
    origin: str
    _: KW_ONLY
    wait: wait_base = _WAIT
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._queue: asyncio.Queue[ResetRequest] = asyncio.Queue(MAX_WAITING)

    @property
    def enabled(self) -> bool:
        """Whether the installation sends mail, so that people can request reset links."""
        return self.mailer is not None

    async def request(self, request: ResetRequest) -> None:
        """Queue a mail with a password reset link; `run` sends it.

        Neither the outcome nor the time depends on whether the account exists.

        Raises:
            MailUnavailable: the installation sends no mail.
            UnacceptableValue: the text is no e-mail address, or a reserved one.
            TooManySignIns: too many requests from this network address, or for this e-mail address.
            MailBusy: too many mails are waiting.
        """
        if self.mailer is None:
            raise MailUnavailable("no SMTP server is configured")
        await self.throttle.attempt_from(request.address)
        await self.throttle.reset_for(fold_email(checked_email(request.email)))
        try:
            self._queue.put_nowait(request)
        except asyncio.QueueFull as error:
            raise MailBusy("too many mails are waiting") from error

    async def run(self) -> None:
        """Send the queued mails with password reset links until cancelled; a background task of the gateway."""
        if self.mailer is not None:
            await asyncio.gather(*(self._serve(self.mailer) for _ in range(SENDERS)))

    async def close(self) -> None:
        """Wait up to `CLOSING_PERIOD` for the queued mails with reset links, and release the mailer.

        Cancel `run` afterwards.
        """
        if self.mailer is None:
            return
        try:
            await asyncio.wait_for(self._queue.join(), CLOSING_PERIOD)
        except TimeoutError:
            _log.warning("reset mails lost at the end of the process", waiting=self._queue.qsize())
        self.mailer.close()

    async def _serve(self, mailer: Mailer) -> None:
        while True:
            request = await self._queue.get()
            answer = asyncio.create_task(self._answer(mailer, request))  # an unexpected error ends this mail only
            try:
                await asyncio.wait([answer])
                if (error := answer.exception()) is not None:
                    _log.error("no reset mail sent", exc_info=error)
            finally:
                answer.cancel()
                self._queue.task_done()

    async def _answer(self, mailer: Mailer, request: ResetRequest) -> None:
        """Mail a link to the user of a request, if the address has one; failures are retried, then logged."""
        retries = _Retries(self.wait, self.clock)
        user = await retries.until_done(lambda: self._find(request))
        if user is None:
            return
        token = await retries.until_done(lambda: self._link(user, request))
        if token is None:
            return
        link = f"{self.origin}/#reset={token}"
        text = TEXTS[request.language].format(origin=self.origin, link=link)
        # To the stored address, never the typed one: an attacker may own another spelling of it.
        await retries.until_done(lambda: mailer.send(user.email, SUBJECTS[request.language], text))

    async def _find(self, request: ResetRequest) -> User | None:
        return await self.links.users.find_by_email(request.email)

    async def _link(self, user: User, request: ResetRequest) -> str:
        token = await self.links.make(user)
        who = AuditActor(address=request.address)
        await record_account_event(
            self.audit_log, self.links.memberships, user, Event.PASSWORD_RESET_CREATED, who, by="mail"
        )
        return token


class _Retries:
    """Tries the steps of one mail until each has succeeded once, or `RETRY_PERIOD` has passed."""

    def __init__(self, wait: wait_base, clock: Callable[[], float]) -> None:
        self._backoff, self._clock = Backoff(wait), clock
        self._ends = clock() + RETRY_PERIOD

    async def until_done(self, step: Callable[[], Awaitable[ResultT]]) -> ResultT | None:
        """Call `step`, one step of sending a mail, until the step succeeds, and return its result.

        Return `None`, with a line in the log, if the step can't succeed or `RETRY_PERIOD` has passed.
        """
        while True:
            try:
                return await step()
            except AccountError as error:
                permanent = isinstance(error, NotPermitted) or (isinstance(error, MailNotSent) and error.permanent)
                if permanent or self._clock() >= self._ends:
                    _log.warning("no reset mail sent", reason=str(error))
                    return None
            await self._backoff.sleep()
