"""Finds a person's collections of documents for the routes of the chat API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fastapi import Request

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from auth_billing.audit_log import Action
from auth_billing.errors import NoSuchRecord, NotPermitted
from auth_billing.people.sessions import BrowserSession
from chat_ui.errors import StorageFull
from chat_ui.http.uploads import MIB
from chat_ui.services import ChatServices, client_address, services_of
from stored_objects.errors import DocumentNotFound, StorageQuotaExceeded
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.records import VectorStore


async def principal_of(request: Request, caller: BrowserSession) -> Principal:
    """Return the caller's principal.

    Raises:
        NotPermitted: the caller may use no files or models.
    """
    principal = await services_of(request).principal(caller)
    if not (principal.may(Scope.FILES) and principal.may(Scope.EMBEDDINGS)):
        raise NotPermitted("no documents for this role")
    return principal


async def billed_principal(request: Request, caller: BrowserSession) -> Principal:
    """Return the caller's principal, whose project pays for embeddings.

    Raises:
        NotPermitted: the caller may use no files or models, or the organisation has no project in use.
    """
    principal = await principal_of(request, caller)
    if not principal.project:
        raise NotPermitted("there is no project")
    return principal


async def find_collection(
    services: ChatServices, principal: Principal, id: str, *, change: bool = False
) -> VectorStore:
    """Return a collection that `principal` may read, or with `change` may change.

    Raises:
        NoSuchRecord: there is none with this id that `principal` may read.
        NotPermitted: `principal` may read it, but not change it.
    """
    find = services.vector_stores.find_to_change if change else services.vector_stores.find
    with not_found():
        return await find(Reader.of(principal), id)


async def record_accesses(request: Request, principal: Principal, accesses: Sequence[Action]) -> None:
    """Write the audit log entries of accesses to documents, where the organisation wants that; call it before each.

    Raises:
        StoreUnavailable: the entries can't be written; the access is refused.
    """
    audit = services_of(request).admin.administration.document_audit
    await audit.record(principal, accesses, client_address(request))


@contextmanager
def not_found() -> Iterator[None]:
    """Answer 404 where there is no such collection or file."""
    try:
        yield
    except DocumentNotFound as error:
        raise NoSuchRecord(str(error)) from error


@contextmanager
def within_quota() -> Iterator[None]:
    """Answer that the storage is full where the project or the organisation has no room for a collection or a file."""
    try:
        yield
    except StorageQuotaExceeded as error:
        raise StorageFull(f"The project or organisation may store {error.limit // MIB} MiB.") from error
