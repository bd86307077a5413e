"""Stores of accounts in dictionaries, which can be made to go away; and a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.idempotency import IdempotencyRecord, KeptAnswer
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.money.usage_store import Insertion
from auth_billing.people.organisation_records import Organisation, Project
from router.messages import KeySet, UsageRecord
from router.usage_arithmetic import JobUsage, merged


class FakeClock:
    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Absence:
    """Whether a store is away, and how often it was asked."""

    def __init__(self) -> None:
        self.away = False
        self.failures = 0
        """Fail so many times more, then answer."""
        self.failures_after = 0
        """Fail once, at this question from now on."""
        self.asked = 0

    def check(self) -> None:
        self.asked += 1
        if self.failures_after:
            self.failures_after -= 1
            if not self.failures_after:
                raise StoreUnavailable("away for once")
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("away for a moment")
        if self.away:
            raise StoreUnavailable("away")


class DictApiKeyStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.records: dict[str, ApiKeyRecord] = {}

    async def find(self, key_id: str) -> ApiKeyRecord | None:
        self.absence.check()
        return self.records.get(key_id)

    async def add(self, record: ApiKeyRecord) -> None:
        self.absence.check()
        self.records[record.key_id] = record

    async def unrevoked(self, organisation: str, project: str) -> list[ApiKeyRecord]:
        self.absence.check()
        of = [
            r for r in self.records.values() if (r.organisation, r.project, r.revoked) == (organisation, project, None)
        ]
        return sorted(of, key=lambda record: (-record.created, record.key_id))

    async def rename(self, key_id: str, name: str) -> None:
        self._change(key_id, name=name)

    async def expire(self, key_id: str, at: float) -> None:
        self._change(key_id, expires=min(at, self.records[key_id].expires or at))

    async def set_last_used(self, uses: Mapping[str, float]) -> None:
        for key_id, at in uses.items():
            if key_id in self.records:
                self._change(key_id, last_used=max(at, self.records[key_id].last_used or 0.0))

    async def revoke(self, keys: KeySet, now: float) -> int:
        self.absence.check()
        named = keys.key or keys.organisation or keys.project or keys.user
        live = [r for r in self.records.values() if named and r.is_in(keys) and r.revoked is None]
        for record in live:
            self.records[record.key_id] = replace(record, revoked=now)
        return len(live)

    def _change(self, key_id: str, **fields: Any) -> None:
        self.absence.check()
        if key_id in self.records:
            self.records[key_id] = replace(self.records[key_id], **fields)


class DictOrganisationStore:
    def __init__(self) -> None:
        self.organisations: dict[str, Organisation] = {}
        self.all_projects: dict[str, Project] = {}
        self.owners: dict[str, set[str]] = {}

    async def ensure_organisation(self, organisation: Organisation) -> None:
        self.organisations.setdefault(organisation.id, organisation)

    async def ensure_project(self, project: Project) -> None:
        self.all_projects.setdefault(project.id, project)

    async def find_organisation(self, organisation: str) -> Organisation | None:
        return self.organisations.get(organisation)

    async def find_organisations(self, ids: Sequence[str]) -> list[Organisation]:
        return [each for each in self.organisations.values() if each.id in ids]

    async def page(self, after: str, limit: int) -> list[Organisation]:
        return [self.organisations[id] for id in sorted(self.organisations) if id > after][:limit]

    async def projects(self, organisation: str) -> list[Project]:
        own = [project for project in self.all_projects.values() if project.organisation == organisation]
        return sorted(own, key=lambda project: (project.created, project.id))

    async def find_project(self, organisation: str, project: str) -> Project | None:
        found = self.all_projects.get(project)
        return found if found is not None and found.organisation == organisation else None

    async def rename_project(self, organisation: str, project: str, name: str) -> None:
        if (found := await self.find_project(organisation, project)) is not None:
            self.all_projects[project] = replace(found, name=name)

    async def archive_project(self, organisation: str, project: str, now: float) -> None:
        found = await self.find_project(organisation, project)
        if found is not None and found.archived is None:
            self.all_projects[project] = replace(found, archived=now)

    async def set_document_audit(self, organisation: str, *, on: bool) -> None:
        if (found := self.organisations.get(organisation)) is not None:
            self.organisations[organisation] = replace(found, audits_documents=on)

    async def add_owner(self, organisation: str, user: str) -> None:
        if organisation in self.organisations:
            self.owners.setdefault(organisation, set()).add(user)

    async def give_up_owner(self, organisation: str, user: str) -> bool:
        owners = self.owners.get(organisation, set())
        if owners == {user}:
            return False
        owners.discard(user)
        return True


class DictUsageStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.lose_answer = 0
        """Store the next so many records, but fail to say so."""
        self.records: dict[tuple[str, str], UsageRecord] = {}
        self.refused: set[str] = set()
        self.batches: list[int] = []
        """How many records each write of many had."""
        self.writing: asyncio.Event | None = None
        """If there is one, a write of many waits for it."""

    async def add_new(self, records: Sequence[UsageRecord]) -> list[bool]:
        self.batches.append(len(records))
        if self.writing is not None:
            await self.writing.wait()
        return [await self.add(record) is Insertion.NEW for record in records]

    async def of_jobs(self, jobs: Collection[str]) -> list[tuple[str, JobUsage]]:
        self.absence.check()
        found = [record for record in self.records.values() if record.job in jobs]
        return [(record.job, JobUsage(record.usage, merged(record.parts))) for record in found]

    async def add(self, record: UsageRecord) -> Insertion:
        self.absence.check()
        if record.job in self.refused:
            raise RecordRefused("too long")
        identity = (record.job, record.attempt)
        stored = self.records.setdefault(identity, record)
        if self.lose_answer:
            self.lose_answer -= 1
            raise StoreUnavailable("no answer: it may have been stored")
        if stored is record:
            return Insertion.NEW
        return Insertion.REPEATED if replace_at(stored) == replace_at(record) else Insertion.CONFLICTING


class DictIdempotencyStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.records: dict[str, IdempotencyRecord] = {}
        self.largest = 2**24

    async def insert(self, record: IdempotencyRecord) -> IdempotencyRecord | None:
        self.absence.check()
        await asyncio.sleep(0)
        there = self.records.setdefault(record.id, record)
        return None if there is record else there

    async def replace(self, old: IdempotencyRecord, new: IdempotencyRecord) -> bool:
        self.absence.check()
        there = self.records.get(old.id)
        if there is None or (there.run_id, there.lease) != (old.run_id, old.lease):
            return False
        self.records[new.id] = new
        return True

    async def renew(self, record_id: str, run_id: str, lease: float) -> bool:
        return self._update(record_id, run_id, lease=lease)

    async def finish(self, record_id: str, run_id: str, answer: KeptAnswer) -> bool:
        if answer.body is not None and len(answer.body) > self.largest:
            raise RecordRefused("too large")
        return self._update(record_id, run_id, lease=0.0, answer=answer)

    async def find(self, record_id: str) -> IdempotencyRecord | None:
        self.absence.check()
        return self.records.get(record_id)

    async def release(self, record_id: str, run_id: str) -> bool:
        self.absence.check()
        there = self.records.get(record_id)
        if there is None or there.run_id != run_id or there.answer is not None:
            return False
        del self.records[record_id]
        return True

    async def drop_answers(self, record_ids: Sequence[str]) -> None:
        self.absence.check()
        for record in [self.records[id] for id in record_ids if id in self.records]:
            if record.answer is not None:
                self.records[record.id] = replace(record, answer=replace(record.answer, body=None))

    def _update(self, record_id: str, run_id: str, **fields: Any) -> bool:
        self.absence.check()
        there = self.records.get(record_id)
        if there is None or there.run_id != run_id:
            return False
        self.records[record_id] = replace(there, **fields)
        return True


def replace_at(record: UsageRecord) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in record.__struct_fields__ if name != "at")
