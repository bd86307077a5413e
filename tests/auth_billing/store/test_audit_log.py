"""The audit log's documents; queries on both stores are in `tests/auth_billing/test_audit_log.py`."""

from __future__ import annotations

import pytest

from auth_billing.audit_log import AuditActor, AuditEntry, AuditQuery, Event
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.connection import StoreConnection

pytestmark = pytest.mark.store


async def test_an_entry_is_stored_as_plain_values_and_read_back(connection: StoreConnection) -> None:
    log = MongoAuditLogStore(connection)
    actor = AuditActor(key_id="k0", user="user-0", email="a@example.org", address="192.0.2.7")
    entry = AuditEntry(
        id="audit-1",
        organisation="org-1",
        event=Event.API_KEY_CREATED,
        target="key_0",
        actor=actor,
        at=5.5,
        project="proj_0",
        details={"scopes": ("chat", "models"), "budget": 5},
    )
    await log.add([entry])
    document = await connection.durable("audit_log").find_one({"_id": "audit-1"})
    assert (document["event"], document["actor"]["email"]) == (Event.API_KEY_CREATED.value, "a@example.org")
    assert document["details"] == {"scopes": ["chat", "models"], "budget": 5}
    (found,) = await log.find(AuditQuery("org-1", limit=5))
    assert (found.event, found.actor, found.at, found.project) == (entry.event, actor, 5.5, "proj_0")
    assert await log.find(AuditQuery("org-2", limit=5)) == []
