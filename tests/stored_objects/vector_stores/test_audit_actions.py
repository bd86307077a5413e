"""What the audit log has of accesses to documents: ids, names and numbers, no texts."""

from __future__ import annotations

from auth_billing.audit_log import Action, Detail, Event
from stored_objects.vector_stores import audit_actions
from stored_objects.vector_stores.records import Chunking, VectorStore, VectorStoreFile

STORE = VectorStore("vs_1", "org-1", "proj-1", 0.0, 0.0, "minilm", name="Leases", person="ada")
FILE = VectorStoreFile("vs_1", "file-1", "org-1", "proj-1", 0.0, Chunking(400, 50), name="lease.pdf")
IN_STORE = {"name": "lease.pdf", "vector_store": "vs_1"}


def test_a_search_counts_passages_by_file() -> None:
    found = [("file-1", "lease.pdf"), ("file-2", "a b.md"), ("file-1", "lease.pdf")]
    details: dict[str, Detail] = {"name": "Leases", "passages": 3, "files": ["2 file-1 lease.pdf", "1 file-2 a b.md"]}
    assert audit_actions.searched(STORE, found) == Action(Event.VECTOR_STORE_SEARCHED, "vs_1", "proj-1", details)
    assert audit_actions.searched(STORE, []).details == {"name": "Leases", "passages": 0, "files": []}


def test_other_accesses_name_the_file_and_its_vector_store() -> None:
    assert [
        audit_actions.uploaded("vs_1", "proj-1", "file-1", "lease.pdf"),
        audit_actions.read(FILE, 7),
        audit_actions.file_deleted(FILE),
        audit_actions.store_deleted(STORE),
        audit_actions.project_file(Event.DOCUMENT_DOWNLOADED, "file-1", "lease.pdf", "proj-1"),
    ] == [
        Action(Event.DOCUMENT_UPLOADED, "file-1", "proj-1", IN_STORE),
        Action(Event.DOCUMENT_READ, "file-1", "proj-1", {**IN_STORE, "passages": 7}),
        Action(Event.DOCUMENT_DELETED, "file-1", "proj-1", IN_STORE),
        Action(Event.VECTOR_STORE_DELETED, "vs_1", "proj-1", {"name": "Leases", "person": "ada"}),
        Action(Event.DOCUMENT_DOWNLOADED, "file-1", "proj-1", {"name": "lease.pdf"}),
    ]
