"""Bundles the services of the chat API's routes; finds a request's services and address; writes audit entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request

from auth_billing.access.principal import Principal
from auth_billing.audit_log import AuditActor, AuditLog, Detail, Event
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.oidc.oidc_sign_in import OidcSignIn
from auth_billing.people.people_records import User
from auth_billing.people.reset_mails import ResetMails
from auth_billing.people.sessions import BrowserSession
from chat_ui.admin_services import AdminServices
from chat_ui.conversations import Conversations
from chat_ui.document_search import DocumentSearch
from chat_ui.generations.generations import Generations
from chat_ui.generations.model_client import ModelClient
from chat_ui.history.conversation_images import ConversationImages
from chat_ui.history.conversation_lists import ConversationLists
from chat_ui.history.presets import PresetStore
from chat_ui.history.records import Owner
from chat_ui.history.storage import StorageQuota
from chat_ui.importing.importer import Importer
from stored_objects.files.files import ProjectFiles
from stored_objects.project_documents.project_batches import ProjectBatches
from stored_objects.vector_stores.ownerless import OwnerlessVectorStores
from stored_objects.vector_stores.vector_stores import VectorStores


@dataclass(frozen=True)
class ChatServices:
    """The services of the chat API; one instance per gateway process."""

    access: BrowserAccess
    reset_mails: ResetMails
    audit: AuditLog
    conversations: Conversations
    lists: ConversationLists
    images: ConversationImages
    presets: PresetStore
    storage: StorageQuota
    generations: Generations
    importer: Importer
    model_client: ModelClient
    admin: AdminServices
    principal: Callable[[BrowserSession], Awaitable[Principal]]
    """Returns the principal that calls models for a signed-in user."""
    files: ProjectFiles
    batches: ProjectBatches
    vector_stores: VectorStores
    """The collections of documents that people upload and search."""
    ownerless_vector_stores: OwnerlessVectorStores
    """Collections of people who have left, which administrators delete."""
    document_search: DocumentSearch
    blob_address: Callable[[str], str]
    """Returns the signed address of a blob, such as an image of a step, by its id."""
    oidc: OidcSignIn | None = None
    """Sign-in at an OpenID Connect provider; `None`: there is none."""


def services_of(request: Request) -> ChatServices:
    """Return the chat's services of the FastAPI application that serves `request`."""
    services: ChatServices = request.app.state.services
    return services


def owner_of(session: BrowserSession) -> Owner:
    """Return the session's user, within the session's organisation, as the owner of conversations."""
    return Owner(session.organisation, session.user.id)


def client_address(request: Request) -> str:
    """Return the IP address of the client that sent `request`; empty if it is not known."""
    return request.client.host if request.client is not None else ""


def audit_actor(request: Request, user: User) -> AuditActor:
    """Return a user, at the network address of the client that sent `request`, as the actor of audit log entries."""
    return AuditActor(user=user.id, email=user.email, address=client_address(request))


async def record_event(
    request: Request,
    session: BrowserSession,
    event: Event,
    target: str,
    *,
    project: str = "",
    details: Mapping[str, Detail] | None = None,
) -> None:
    """Append to the organisation's audit log that the session's user did `event` to the object with id `target`.

    Raises:
        StoreUnavailable: the action is done, but its entry may be missing.
    """
    audit, actor = services_of(request).audit, audit_actor(request, session.user)
    await audit.record(session.organisation, event, target, actor, project=project, details=details)
