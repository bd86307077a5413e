"""The audit log in a list."""

from __future__ import annotations

from collections.abc import Sequence

from auth_billing.audit_log import AuditEntry, AuditQuery
from tests.fakes.accounts import Absence


class ListAuditLogStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.entries: list[AuditEntry] = []
        self.writes = 0

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        self.absence.check()
        self.writes += 1
        known = {each.id for each in self.entries}
        self.entries += [each for each in entries if each.id not in known]

    async def find(self, query: AuditQuery) -> list[AuditEntry]:
        self.absence.check()
        found = sorted((each for each in self.entries if _wanted(each, query)), key=lambda each: each.id, reverse=True)
        if query.before is not None and query.after is None:
            return found[-query.limit :]
        return found[: query.limit]


def _wanted(entry: AuditEntry, query: AuditQuery) -> bool:
    return (
        entry.organisation == query.organisation
        and (not query.projects or entry.project in query.projects)
        and (not query.events or entry.event in query.events)
        and (not query.actors or bool({entry.actor.user, entry.actor.key_id} & set(query.actors)))
        and (not query.emails or entry.actor.email in query.emails)
        and (not query.targets or entry.target in query.targets)
        and (query.since is None or entry.at >= query.since)
        and (query.until is None or entry.at < query.until)
        and (query.after is None or entry.id < query.after)
        and (query.before is None or entry.id > query.before)
    )
