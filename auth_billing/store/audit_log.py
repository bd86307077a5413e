"""MongoDB store of the audit log of administrators' actions: inserts entries, and finds them; entries never change.

    audit_log {_id, organisation, event, target, actor, at, project, details}

An `_id` sorts by time, so that pages need only the index on (organisation, _id).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auth_billing.audit_log import AuditActor, AuditEntry, AuditQuery, Event
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

COLLECTION = "audit_log"


class MongoAuditLogStore:
    """MongoDB implementation of `audit_log.AuditLogStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._entries = connection.durable(COLLECTION)

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """Store audit log entries, at least one, durably in one write; those whose id is stored are left out."""
        await self._entries.insert_new([_to_document(each) for each in entries])

    async def find(self, query: AuditQuery) -> list[AuditEntry]:
        """Return up to `query.limit` audit log entries that match `query`, newest first.

        With `query.before` (an entry's id) they are those directly before that entry.
        """
        upwards = query.before is not None and query.after is None
        cursor = self._entries.find(_filter(query)).sort("_id", 1 if upwards else -1).limit(query.limit)
        entries = [_from_document(document) async for document in cursor]
        return entries[::-1] if upwards else entries


def _filter(query: AuditQuery) -> dict[str, Any]:
    wanted: dict[str, Any] = {"organisation": query.organisation}
    lists = {
        "project": query.projects,
        "event": query.events,
        "actor.email": query.emails,
        "target": query.targets,
    }
    wanted.update({name: {"$in": list(values)} for name, values in lists.items() if values})
    if query.actors:
        actors = {"$in": list(query.actors)}
        wanted["$or"] = [{"actor.user": actors}, {"actor.key_id": actors}]
    for name, bounds in (
        ("at", {"$gte": query.since, "$lt": query.until}),
        ("_id", {"$gt": query.before, "$lt": query.after}),
    ):
        if given := {operator: bound for operator, bound in bounds.items() if bound is not None}:
            wanted[name] = given
    return wanted


def _to_document(entry: AuditEntry) -> dict[str, Any]:
    details = {name: _plain(value) for name, value in entry.details.items()}
    return to_document(entry, event=entry.event.value, actor=dict(vars(entry.actor)), details=details)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value


def _from_document(document: dict[str, Any]) -> AuditEntry:
    return from_document(AuditEntry, document, event=Event(document["event"]), actor=AuditActor(**document["actor"]))
