"""The audit log on both stores: entries are found by their organisation only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auth_billing.audit_log import MAX_TEXT, AuditActor, AuditEntry, AuditLog, AuditLogStore, AuditQuery, Event
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.connection import StoreConnection
from tests.fakes.accounts import FakeClock
from tests.fakes.audit_log import ListAuditLogStore

OWNER = AuditActor(key_id="k0", user="user-0", email="owner@example.org", address="192.0.2.7")
MEMBER = AuditActor(user="user-1", email="member@example.org")
QUERY = AuditQuery("org-0", limit=100)


@pytest.fixture
def store(store_connection: StoreConnection | None) -> AuditLogStore:
    return ListAuditLogStore() if store_connection is None else MongoAuditLogStore(store_connection)


async def acted(store: AuditLogStore) -> list[AuditEntry]:
    """Five entries, a second apart; the last one of another organisation."""
    clock = FakeClock()
    log = AuditLog(store, clock=clock)
    acts: list[tuple[str, Event, str, AuditActor, str, dict[str, Any]]] = [
        ("org-0", Event.PROJECT_CREATED, "proj_0", OWNER, "proj_0", {"name": "First"}),
        ("org-0", Event.API_KEY_CREATED, "key_0", MEMBER, "proj_0", {"scopes": ["chat", "models"], "budget": 5}),
        ("org-0", Event.API_KEY_DELETED, "key_0", OWNER, "proj_0", {}),
        ("org-0", Event.USER_UPDATED, "user-1", AuditActor(), "", {"role": "admin"}),
        ("org-1", Event.PROJECT_CREATED, "proj_1", OWNER, "proj_1", {}),
    ]
    entries = []
    for organisation, event, target, actor, project, details in acts:
        entries.append(await log.record(organisation, event, target, actor, project=project, details=details))
        clock.now += 1
    return entries


async def test_entries_are_newest_first_and_of_one_organisation(store: AuditLogStore) -> None:
    entries = await acted(store)
    assert await store.find(QUERY) == entries[3::-1]
    assert await store.find(replace(QUERY, organisation="org-1")) == entries[4:]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"projects": ["proj_0"]}, [2, 1, 0]),
        ({"events": ["project.created", "user.updated"]}, [3, 0]),
        ({"actors": ["user-1"]}, [1]),
        ({"actors": ["k0"]}, [2, 0]),
        ({"emails": ["owner@example.org"], "targets": ["key_0"]}, [2]),
        ({"since": 1001.0, "until": 1003.0}, [2, 1]),
        ({"targets": ["proj_1"]}, []),
    ],
)
async def test_filters(store: AuditLogStore, wanted: dict[str, Any], found: list[int]) -> None:
    entries = await acted(store)
    assert await store.find(replace(QUERY, **wanted)) == [entries[number] for number in found]


async def test_paging_works_in_both_directions(store: AuditLogStore) -> None:
    entries = await acted(store)
    page = replace(QUERY, limit=2)
    assert await store.find(page) == [entries[3], entries[2]]
    assert await store.find(replace(page, after=entries[2].id)) == [entries[1], entries[0]]
    assert await store.find(replace(page, after=entries[0].id)) == []
    assert await store.find(replace(page, before=entries[0].id)) == [entries[2], entries[1]]


async def test_details_are_truncated(store: AuditLogStore) -> None:
    details = {"name": "x" * 10_000, "scopes": ["y" * 10_000] * 1_000}
    entry = await AuditLog(store).record("org-0", Event.PROJECT_CREATED, "proj_0", OWNER, details=details)
    assert entry.details["name"] == "x" * MAX_TEXT
    assert len(str(entry.details)) < 100_000
    assert await store.find(QUERY) == [entry]


def test_an_entry_can_not_be_changed_or_deleted() -> None:
    """Neither the log nor its stores have a method for it."""
    for kind in (AuditLog, AuditLogStore, MongoAuditLogStore):
        assert {name for name in vars(kind) if not name.startswith("_")} <= {
            "record",
            "record_all",
            "record_once",
            "add",
            "find",
        }
