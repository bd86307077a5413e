"""Describes accesses to documents and vector stores for the audit log; texts of documents and queries are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from auth_billing.audit_log import Action, Detail, Event
from stored_objects.vector_stores.records import VectorStore, VectorStoreFile


def uploaded(vector_store: str, project: str, file: str, name: str) -> Action:
    """Return the action of adding a file, by id and name, to the vector store with an id."""
    return Action(Event.DOCUMENT_UPLOADED, file, project, {"name": name, "vector_store": vector_store})


def searched(store: VectorStore, found: Sequence[tuple[str, str]]) -> Action:
    """Return the action of searching a vector store. `found`: id and name of the file of each passage.

    The details count the passages by file: `"2 file-1 lease.pdf"`.
    """
    by_file = [f"{count} {id} {name}" for (id, name), count in Counter(found).items()]
    details: dict[str, Detail] = {"name": store.name, "passages": len(found), "files": by_file}
    return Action(Event.VECTOR_STORE_SEARCHED, store.id, store.project, details)


def read(file: VectorStoreFile, passages: int) -> Action:
    """Return the action of reading a number of passages of a file."""
    details: dict[str, Detail] = {"name": file.name, "vector_store": file.vector_store, "passages": passages}
    return Action(Event.DOCUMENT_READ, file.file, file.project, details)


def file_deleted(file: VectorStoreFile) -> Action:
    """Return the action of deleting a file of a vector store."""
    details: dict[str, Detail] = {"name": file.name, "vector_store": file.vector_store}
    return Action(Event.DOCUMENT_DELETED, file.file, file.project, details)


def store_deleted(store: VectorStore) -> Action:
    """Return the action of deleting a vector store with its files."""
    details: dict[str, Detail] = {"name": store.name, "person": store.person}
    return Action(Event.VECTOR_STORE_DELETED, store.id, store.project, details)


def project_file(event: Event, id: str, name: str, project: str) -> Action:
    """Return an action (`event`) on a project's own file, in whichever vector stores it is."""
    return Action(event, id, project, {"name": name})
