"""Accesses to documents are recorded where the organisation wants that, in one write, or refused; on both stores."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.roles import Actor, Role
from auth_billing.audit_log import Action, AuditActor, AuditEntry, AuditLog, AuditLogStore, AuditQuery, Event
from auth_billing.confirmed_cache import CONFIRMED_TTL
from auth_billing.document_audit import DocumentAudit
from auth_billing.errors import NotPermitted, StoreUnavailable
from auth_billing.people.organisation_records import Organisation, OrganisationStore
from auth_billing.people.people_records import User, UserStore
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.users import MongoUserStore
from tests.fakes.accounts import DictOrganisationStore, FakeClock
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.people import DictUserStore

ADMIN, MEMBER = (Actor("org-0", "ada", role) for role in (Role.ADMIN, Role.MEMBER))
ADA = Principal("key-1", "org-0", "salt", project="proj_0", user="ada")
READ = Action(Event.DOCUMENT_READ, "file-1", "proj_0", {"name": "a.pdf", "passages": 2})
SEARCHED = Action(Event.VECTOR_STORE_SEARCHED, "vs_1", "proj_0", {"passages": 1, "files": ["1 file-1 a.pdf"]})


@dataclass
class Installation:
    """A document audit over the stores of two organisations, the first with the user Ada."""

    log: AuditLogStore
    accounts: OrganisationStore
    users: UserStore
    clock: FakeClock

    def audit(self) -> DocumentAudit:
        """Return the document audit of one process."""
        return DocumentAudit(AuditLog(self.log), self.accounts, self.users, clock=self.clock)

    async def entries(self, organisation: str = "org-0") -> list[AuditEntry]:
        return (await self.log.find(AuditQuery(organisation, 100)))[::-1]


@pytest.fixture
async def installation(store_connection: StoreConnection | None, clock: FakeClock) -> Installation:
    if store_connection is None:
        made = Installation(ListAuditLogStore(), DictOrganisationStore(), DictUserStore(), clock)
    else:
        made = Installation(
            MongoAuditLogStore(store_connection),
            MongoOrganisationStore(store_connection),
            MongoUserStore(store_connection),
            clock,
        )
    for id in ("org-0", "org-1"):
        await made.accounts.ensure_organisation(Organisation(id, id, 1.0))
    await made.users.add(User("ada", "ada@example.org", "Ada", 1.0, "hash"))
    return made


async def test_accesses_are_recorded_only_where_the_organisation_wants_that(installation: Installation) -> None:
    audit = installation.audit()
    await audit.record(ADA, [READ])
    assert (await audit.is_on("org-0"), await installation.entries()) == (False, [])
    await audit.set(ADMIN, on=True)
    assert await audit.is_on("org-0")
    await audit.record(ADA, [READ, SEARCHED], "192.0.2.7")
    await audit.record(Principal("key-2", "org-1", "salt"), [READ])
    entries = await installation.entries()
    assert {(each.event, each.target, each.project, each.organisation) for each in entries} == {
        (Event.DOCUMENT_READ, "file-1", "proj_0", "org-0"),
        (Event.VECTOR_STORE_SEARCHED, "vs_1", "proj_0", "org-0"),
    }
    assert {each.target: dict(each.details) for each in entries} == {
        "file-1": dict(READ.details),
        "vs_1": dict(SEARCHED.details),
    }
    assert {each.actor for each in entries} == {AuditActor("key-1", "ada", "ada@example.org", "192.0.2.7")}
    assert await installation.entries("org-1") == []
    await audit.set(ADMIN, on=False)
    await audit.record(ADA, [READ])
    assert len(await installation.entries()) == 2


async def test_a_service_account_has_no_address(installation: Installation) -> None:
    audit = installation.audit()
    await audit.set(ADMIN, on=True)
    for _ in range(2):
        await audit.record(Principal("key-1", "org-0", "salt", user="svc_1"), [READ])
    assert {each.actor for each in await installation.entries()} == {AuditActor("key-1", "svc_1", "", "")}


async def test_another_process_sees_a_change_within_seconds(installation: Installation) -> None:
    here, there = installation.audit(), installation.audit()
    await there.record(ADA, [READ])
    await here.set(ADMIN, on=True)
    installation.clock.now += CONFIRMED_TTL
    await there.record(ADA, [READ])
    assert len(await installation.entries()) == 1


async def test_members_do_not_set_it(installation: Installation) -> None:
    with pytest.raises(NotPermitted):
        await installation.audit().set(MEMBER, on=True)
    assert not await installation.audit().is_on("org-0")


async def test_many_accesses_are_one_write_and_none_is_lost_silently(clock: FakeClock) -> None:
    log, accounts = ListAuditLogStore(), DictOrganisationStore()
    await accounts.ensure_organisation(Organisation("org-0", "org-0", 1.0, audits_documents=True))
    audit = DocumentAudit(AuditLog(log), accounts, DictUserStore(), clock=clock)
    await audit.record(ADA, [])
    assert log.writes == 0
    await audit.record(ADA, [READ] * 8)
    assert (log.writes, len(log.entries)) == (1, 8)
    log.absence.away = True
    with pytest.raises(StoreUnavailable):
        await audit.record(ADA, [READ])
