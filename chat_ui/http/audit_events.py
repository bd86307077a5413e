"""Writes audit log entries of new members and of failed sign-ins (one per account and 10 minutes) in the chat API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from fastapi import Request

from auth_billing.audit_log import AuditActor, Event
from auth_billing.errors import InvalidCode, InvalidCredentials, StoreUnavailable
from auth_billing.people.input_normalisation import MAX_EMAIL
from auth_billing.people.people_records import User
from auth_billing.people.sessions import BrowserSession
from chat_ui.services import ChatServices, audit_actor, client_address, services_of

FAILED_SIGN_IN_INTERVAL = 600
"""Seconds in which failed sign-ins at an account have one entry, so that an attacker can't fill the store."""

_log = structlog.get_logger(__name__)
_recording: set[asyncio.Task[None]] = set()


async def record_membership(request: Request, session: BrowserSession) -> None:
    """Append "user added" to the audit log of the session's organisation, once for each membership of its user.

    Raises:
        StoreUnavailable: the user is a member, but the entry may be missing.
    """
    services, user = services_of(request), session.user
    joined = await services.access.members.joined(session.organisation, user.id)
    if joined is not None:
        actor = audit_actor(request, user)
        details = {"role": session.role.value, "email": user.email}
        event = Event.USER_ADDED
        await services.audit.record_once(session.organisation, event, user.id, joined, actor, details=details)


@contextmanager
def failures_recorded(request: Request, user: User) -> Iterator[None]:
    """Return a context manager that records a signed-in user's wrong password or code as a failed sign-in.

    The client may be another person at an open session.
    """
    try:
        yield
    except (InvalidCredentials, InvalidCode):
        record_failed_sign_in(services_of(request), user.email, client_address(request))
        raise


def record_failed_sign_in(services: ChatServices, email: str, address: str) -> None:
    """Start a task that records a failed sign-in at the account of `email`, if any, in its organisations' audit logs.

    Nothing waits for the task, so the response takes equally long for addresses without an account. `address`: the
    client's network address.
    """
    task = asyncio.create_task(_record_failed_sign_in(services, email, address))
    _recording.add(task)
    task.add_done_callback(_recording.discard)


async def _record_failed_sign_in(services: ChatServices, email: str, address: str) -> None:
    at = time.time() // FAILED_SIGN_IN_INTERVAL * FAILED_SIGN_IN_INTERVAL
    members = services.access.members
    try:
        user = await members.users.find_by_email(email) if len(email) <= MAX_EMAIL else None
        if user is None:
            return
        actor = AuditActor(address=address)  # not the user: the client is not authenticated
        for membership in await members.memberships.of_user(user.id):
            organisation, details = membership.organisation, {"email": user.email, "address": address}
            await services.audit.record_once(organisation, Event.LOGIN_FAILED, user.id, at, actor, details=details)
    except StoreUnavailable as error:
        _log.warning("failed sign-in not recorded", reason=str(error))
