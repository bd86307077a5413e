"""Defines the interface through which the chat has documents embedded and searched; `infra` implements it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from auth_billing.access.principal import Principal
from stored_objects.objects.records import StoredObject
from stored_objects.vector_stores.access import StoreScope
from stored_objects.vector_stores.records import VectorStore


@dataclass(frozen=True)
class PassageHit:
    """A hit of a search: a passage with its place and its score."""

    file: str
    """Id of the file."""
    name: str
    """Name of the file."""
    number: int
    """Number of the passage in its file, from 0."""
    text: str
    page: int | None
    """Page or slide that the passage begins on, from 1; `None` in a format without pages."""
    heading_path: list[str]
    """Headings above the passage, the outermost first."""
    score: float
    """How well the passage fits, from 0 to 1."""


class DocumentSearch(Protocol):
    """What the gateway does with the vector stores that people see as collections of documents."""

    async def create(self, principal: Principal, name: str, scope: StoreScope) -> VectorStore:
        """Create an empty vector store, with the embedding model of the installation, and return it.

        `scope`: whether it is the person's, the project's or the organisation's.

        Raises:
            NoEmbedder: there is none that `principal` may use.
        """
        ...

    async def add(self, principal: Principal, store: VectorStore, file: StoredObject) -> None:
        """Add a file that the person has uploaded for a vector store; it is imported in the background.

        Raises:
            NoEmbedder: the vector store's embedding model is not served, or `principal` may not use it.
            DocumentNotFound: the vector store was deleted meanwhile.
        """
        ...

    async def search(
        self, principal: Principal, store: VectorStore, query: str, limit: int, *, address: str
    ) -> list[PassageHit]:
        """Return the passages of a vector store that fit a question best, at most `limit`; `principal` is billed.

        The search is recorded in the audit log of an organisation that wants that, with the person's network `address`.

        Raises:
            NoSuchRecord: the vector store was deleted meanwhile, or `principal` may not read it.
            Busy: the service is busy, or a rate limit is reached.
            SearchRefused: the search failed for another reason.
        """
        ...
