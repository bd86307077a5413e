"""Audit entries about an account: one in each organisation of the person, none elsewhere."""

from __future__ import annotations

from auth_billing.access.roles import Role
from auth_billing.audit_log import OPERATOR, AuditLog, Event
from auth_billing.people.account_events import record_account_event
from tests.auth_billing.people.conftest import ORG, TeamFixture
from tests.fakes.audit_log import ListAuditLogStore


async def test_each_organisation_of_the_person_gets_an_entry(team: TeamFixture) -> None:
    await team.add_members(ada=Role.MEMBER, bob=Role.OWNER)
    await team.members.join("org-2", "ada", Role.VIEWER, 5.0)
    await team.members.join("org-3", "bob", Role.VIEWER, 5.0)
    store, ada = ListAuditLogStore(), team.users.users["ada"]
    await record_account_event(AuditLog(store), team.memberships, ada, Event.PASSWORD_RESET, OPERATOR, by="operator")
    assert {each.organisation for each in store.entries} == {ORG, "org-2"}
    assert [(each.target, each.event) for each in store.entries] == [("ada", Event.PASSWORD_RESET)] * 2
    assert all(each.details == {"email": "ada@example.org", "by": "operator"} for each in store.entries)
