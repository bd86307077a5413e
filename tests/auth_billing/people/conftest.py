"""User accounts with sessions, and an organisation with members, invitations and projects over stores in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.invitations import Invitations
from auth_billing.people.members import Members
from auth_billing.people.organisation_records import Organisation
from auth_billing.people.people_records import User
from auth_billing.people.projects import Projects
from router.messages import KeySet
from tests.fakes.accounts import DictOrganisationStore, FakeClock
from tests.fakes.people import DictInvitationStore, DictMembershipStore, DictUserStore
from tests.fakes.sessions import DictSessionStore, PeopleFixture

ORG = "org-1"


class TeamFixture:
    def __init__(self) -> None:
        self.clock, self.accounts = FakeClock(), DictOrganisationStore()
        self.users, self.memberships, self.stored = DictUserStore(), DictMembershipStore(), DictInvitationStore()
        self.sessions = DictSessionStore()
        self.ended_keys: list[KeySet] = []
        self.invitations = Invitations(self.stored, b"p" * 32, self.clock)
        self.members = Members(
            self.users, self.memberships, self.accounts, self.sessions, self.invitations, self._end_keys, self.clock
        )
        self.projects = Projects(self.accounts, self.clock)

    async def _end_keys(self, keys: KeySet) -> None:
        self.ended_keys.append(keys)

    async def add_members(self, **roles: Role) -> None:
        await self.accounts.ensure_organisation(Organisation(ORG, "Org", 1.0))
        for name, role in roles.items():
            await self.users.add(User(name, f"{name}@example.org", name, 1.0, "hash"))
            await self.members.join(ORG, name, role, self.clock())
            self.clock.now += 1

    def actor(self, user: str) -> Actor:
        return Actor(ORG, user, self.memberships.memberships[ORG, user].role)


@pytest.fixture
def team() -> TeamFixture:
    return TeamFixture()


@pytest.fixture
def people() -> Iterator[PeopleFixture]:
    people = PeopleFixture()
    yield people
    people.passwords.close()


@pytest.fixture
def access(people: PeopleFixture) -> BrowserAccess:
    return people.process()
