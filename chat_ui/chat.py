"""The services that routes of the chat API use, and how a route gets them from its request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from auth_billing.access.principal import Principal
from auth_billing.audit_log import Actor, AuditLog
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.people_records import User
from auth_billing.people.sessions import BrowserSession
from chat_ui.conversations import Conversations
from chat_ui.generations.engine import Engine
from chat_ui.generations.generations import Generations
from chat_ui.history.listing import Listing
from chat_ui.history.records import Owner, PresetStore
from chat_ui.importing.importer import Importer
from chat_ui.office import Office


@dataclass(frozen=True)
class Chat:
    """The services of the chat API; one instance per gateway process."""

    access: BrowserAccess
    audit: AuditLog
    conversations: Conversations
    listing: Listing
    presets: PresetStore
    generations: Generations
    importer: Importer
    engine: Engine
    office: Office
    principal: Callable[[BrowserSession], Principal]
    """Returns the principal that calls models for a signed-in user."""


def chat_of(request: Request) -> Chat:
    """Return the services of the application that serves `request`."""
    chat: Chat = request.app.state.chat
    return chat


def owner_of(session: BrowserSession) -> Owner:
    """Return the owner of conversations that the session's user creates."""
    return Owner(session.organisation, session.user.id)


def address_of(request: Request) -> str:
    """Return the client's IP address; empty if it is not known."""
    return request.client.host if request.client is not None else ""


def doer(request: Request, user: User) -> Actor:
    """Return the audit log's actor for a request of `user`."""
    return Actor(user=user.id, email=user.email, address=address_of(request))
