"""Sessions in a dictionary, and everything that signing in needs put together on a fake clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import argon2

from auth_billing.access.roles import Actor, Role
from auth_billing.people.browser_access import BrowserAccess, PeopleStores
from auth_billing.people.organisation_records import Organisation, Project
from auth_billing.people.passwords import Passwords
from auth_billing.people.session_records import SessionRecord
from auth_billing.people.sessions import SignedIn
from auth_billing.people.sign_up import SignUpInput
from auth_billing.people.signing_keys import SigningKey
from router.messages import KeySet
from tests.fakes.accounts import Absence, DictOrganisationStore, FakeClock
from tests.fakes.people import (
    DictIdentityStore,
    DictInvitationStore,
    DictMembershipStore,
    DictPasswordResetStore,
    DictSecondFactorStore,
    DictUserStore,
)
from tests.fakes.rate_buckets import DictBucketStore

PEPPER = b"p" * 32
SIGNING_KEY = SigningKey("k1", "HS256", b"s" * 64)
PASSWORD = "correct horse"
ORGANISATION = "org-acme"
CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class DictSessionStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.sessions: dict[str, SessionRecord] = {}

    async def add(self, session: SessionRecord) -> None:
        self.absence.check()
        self.sessions[session.id] = session

    async def find(self, session_id: str) -> SessionRecord | None:
        self.absence.check()
        return self.sessions.get(session_id)

    async def rotate(self, session_id: str, old: bytes, new: bytes, sealed: bytes, now: float) -> bool:
        found = await self.find(session_id)
        if found is None or found.current != old or found.revoked is not None:
            return False
        self.sessions[session_id] = replace(found, current=new, previous=old, sealed=sealed, used=now)
        return True

    async def set_checked(self, session_id: str, before: float, at: float) -> bool:
        found = await self.find(session_id)
        if found is None or found.checked >= before or found.revoked is not None:
            return False
        self.sessions[session_id] = replace(found, checked=at)
        return True

    async def keep_provider_token(self, session_id: str, token: str) -> None:
        self.sessions[session_id] = replace(self.sessions[session_id], provider_token=token)

    async def revoke(self, session_id: str, now: float) -> None:
        found = await self.find(session_id)
        if found is not None and found.revoked is None:
            self.sessions[session_id] = replace(found, revoked=now)

    async def revoke_all(self, organisation: str, user: str, now: float) -> None:
        self.absence.check()
        for each in list(self.sessions.values()):
            if (each.organisation, each.user) == (organisation, user):
                await self.revoke(each.id, now)


@dataclass
class PeopleFixture:
    """User accounts on in-memory stores, with a clock that tests set."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(float(int(time.time()))))
    users: DictUserStore = field(default_factory=DictUserStore)
    memberships: DictMembershipStore = field(default_factory=DictMembershipStore)
    invitations: DictInvitationStore = field(default_factory=DictInvitationStore)
    accounts: DictOrganisationStore = field(default_factory=DictOrganisationStore)
    sessions: DictSessionStore = field(default_factory=DictSessionStore)
    factors: DictSecondFactorStore = field(default_factory=DictSecondFactorStore)
    identities: DictIdentityStore = field(default_factory=DictIdentityStore)
    resets: DictPasswordResetStore = field(default_factory=DictPasswordResetStore)
    passwords: Passwords = field(default_factory=lambda: Passwords(CHEAP))

    def __post_init__(self) -> None:
        self.buckets = DictBucketStore(self.clock)
        self.ended_keys: list[KeySet] = []

    def process(
        self, *, open_sign_up: bool = False, password_sign_in: bool = True, passwords: Passwords | None = None
    ) -> BrowserAccess:
        """Return the access of one gateway process, with caches of its own."""
        return BrowserAccess(
            PeopleStores(
                users=self.users,
                memberships=self.memberships,
                invitations=self.invitations,
                accounts=self.accounts,
                sessions=self.sessions,
                resets=self.resets,
                factors=self.factors,
                identities=self.identities,
                buckets=self.buckets,
            ),
            pepper=PEPPER,
            signing_keys=[SIGNING_KEY],
            passwords=passwords or self.passwords,
            end_keys=self._end_keys,
            open_sign_up=open_sign_up,
            password_sign_in=password_sign_in,
            clock=self.clock,
        )

    async def _end_keys(self, keys: KeySet) -> None:
        self.ended_keys.append(keys)

    async def invite(self, role: Role, organisation: str = ORGANISATION, email: str = "") -> str:
        """Create an invitation, and its organisation if necessary; return the token."""
        await self.accounts.ensure_organisation(Organisation(organisation, "Acme & Söhne", self.clock()))
        await self.accounts.ensure_project(Project(f"proj_{organisation}", organisation, "Default", self.clock()))
        operator = Actor(organisation, "", Role.OWNER)
        return (await self.process().invitations.invite(operator, role, email))[1]

    async def sign_up_member(self, access: BrowserAccess, role: Role, organisation: str = ORGANISATION) -> SignedIn:
        """Sign up a user with this role, `owner@example.org` with `PASSWORD` for example; return the session."""
        token = await self.invite(role, organisation)
        return await access.sign_up.accept_invitation(token, sign_up_input(role.value))


def sign_up_input(name: str, password: str = PASSWORD) -> SignUpInput:
    """Return the input of a sign-up, from a network address that depends on the name."""
    return SignUpInput(f"{name}@example.org", name, password, f"10.0.0.{sum(name.encode()) % 250}")
