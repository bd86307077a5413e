"""Vector stores of people who have left, through the API: listed by page, and deleted with an audit log entry."""

from __future__ import annotations

from auth_billing.audit_log import Event
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import StoreScope
from stored_objects.vector_stores.records import VectorStore
from tests.gateway.http.routes.organization.conftest import FOREIGN, OURS, AdminApi, key_of

PATH = "/ownerless_vector_stores"


async def persons(api: AdminApi, person: str, name: str = "") -> VectorStore:
    """Create a vector store of a person."""
    owner, scope = ProjectOwner(OURS, "proj_0"), StoreScope.PERSON
    stores = api.stage.gateway.vector_stores
    return await stores.create(owner, embedder="minilm", name=name, scope=scope, person=person)


async def test_they_are_listed_and_deleted(admin_api: AdminApi) -> None:
    kept = await persons(admin_api, "user-member")
    old, new = [await persons(admin_api, "user-left", name) for name in ("Leases", "Notes")]
    page = (await admin_api.request("GET", f"{PATH}?limit=1", key=key_of("reader"))).json()
    assert page["has_more"] is True
    assert page["data"] == [
        {
            "id": new.id,
            "object": "organization.ownerless_vector_store",
            "created_at": int(new.created),
            "name": "Notes",
            "project_id": "proj_0",
            "user_id": "user-left",
            "files": 0,
            "usage_bytes": 0,
        }
    ]
    rest = (await admin_api.request("GET", f"{PATH}?after={new.id}")).json()
    assert ([each["id"] for each in rest["data"]], rest["has_more"]) == ([old.id], False)
    assert (await admin_api.request("GET", f"{PATH}?after={kept.id}")).status_code == 400
    deleted = await admin_api.request("DELETE", f"{PATH}/{old.id}", key=key_of("admin"))
    assert deleted.json() == {"id": old.id, "object": "vector_store.deleted", "deleted": True}
    assert [each["id"] for each in (await admin_api.request("GET", PATH)).json()["data"]] == [new.id]
    (entry,) = admin_api.audit_entries
    assert (entry.event, entry.target, entry.project) == (Event.VECTOR_STORE_DELETED, old.id, "proj_0")
    assert entry.details == {"name": "Leases", "person": "user-left"}


async def test_others_are_neither_found_nor_deleted(admin_api: AdminApi) -> None:
    kept, left = await persons(admin_api, "user-member"), await persons(admin_api, "user-left")
    assert (await admin_api.request("DELETE", f"{PATH}/{kept.id}")).status_code == 404
    assert (await admin_api.request("DELETE", f"{PATH}/{left.id}", key=FOREIGN)).status_code == 404
    assert (await admin_api.request("DELETE", f"{PATH}/{left.id}", key=key_of("reader"))).status_code == 403
    assert (await admin_api.request("GET", PATH, key=FOREIGN)).json()["data"] == []
    assert len(await admin_api.stage.gateway.vector_stores.records.find_any([kept.id, left.id])) == 2
    assert admin_api.audit_entries == []
