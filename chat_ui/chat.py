"""The parts of the chat's API, put together once and found from a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from auth_billing.audit_log import Actor, AuditLog
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.people_records import User
from auth_billing.people.sessions import BrowserSession
from auth_billing.service import Principal
from chat_ui.conversations import Conversations
from chat_ui.generations.engine import Engine
from chat_ui.generations.generations import Generations
from chat_ui.history.records import Owner, PresetStore
from chat_ui.importing.importer import Importer
from chat_ui.listing import Listing
from chat_ui.office import Office


@dataclass(frozen=True)
class Chat:
    """What routes need."""

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
    """Who asks a model, for somebody who is signed in."""


def chat_of(request: Request) -> Chat:
    """The chat that serves `request`."""
    chat: Chat = request.app.state.chat
    return chat


def owner_of(session: BrowserSession) -> Owner:
    """Whose what a session makes is."""
    return Owner(session.organisation, session.user.id)


def address_of(request: Request) -> str:
    """Where the request comes from."""
    return request.client.host if request.client is not None else ""


def doer(request: Request, user: User) -> Actor:
    """Who does something, for the audit log."""
    return Actor(user=user.id, email=user.email, address=address_of(request))
