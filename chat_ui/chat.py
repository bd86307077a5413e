"""The parts of the chat's API, put together once and found from a request."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from auth_billing.audit_log import Actor, AuditLog
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.people_records import User


@dataclass(frozen=True)
class Chat:
    """What routes need."""

    access: BrowserAccess
    audit: AuditLog


def chat_of(request: Request) -> Chat:
    """The chat that serves `request`."""
    chat: Chat = request.app.state.chat
    return chat


def address_of(request: Request) -> str:
    """Where the request comes from."""
    return request.client.host if request.client is not None else ""


def doer(request: Request, user: User) -> Actor:
    """Who does something, for the audit log."""
    return Actor(user=user.id, email=user.email, address=address_of(request))
