"""Checks whether a caller may search vector stores, and finds the stores that the caller may search or change."""

from __future__ import annotations

import time

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from gateway.errors import InvalidRequest, ScopeMissing
from gateway.vector_stores.services import SearchServices
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.records import VectorStore


def check_embeds(caller: Principal) -> None:
    """Raise `ScopeMissing` unless the caller may make embeddings, which imports and searches are billed as."""
    if not caller.may(Scope.EMBEDDINGS):
        raise ScopeMissing(Scope.EMBEDDINGS)


async def find_store(services: SearchServices, caller: Principal, id: str) -> VectorStore:
    """Return a vector store that the caller may search.

    Raises:
        DocumentNotFound: There is none with this id, or the caller may not read it.
        InvalidRequest: It has expired.
    """
    return _live(await services.vector_stores.find(Reader.of(caller), id))


async def find_store_to_change(services: SearchServices, caller: Principal, id: str) -> VectorStore:
    """Return a vector store that the caller may change.

    Raises:
        DocumentNotFound: There is none with this id, or the caller may not read it.
        NotPermitted: The caller may read it, but not change it.
        InvalidRequest: It has expired.
    """
    return _live(await services.vector_stores.find_to_change(Reader.of(caller), id))


def _live(store: VectorStore) -> VectorStore:
    if is_expired(store):
        raise InvalidRequest("The vector store has expired.", param="vector_store_id", code="vector_store_expired")
    return store


def is_expired(store: VectorStore) -> bool:
    """Return whether a vector store has expired, and is about to be deleted."""
    return store.expires <= time.time()
