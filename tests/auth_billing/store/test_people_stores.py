"""Users, memberships, invitations, owners and projects: in dictionaries and on the embedded store alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from auth_billing.access.roles import Role
from auth_billing.people.organisation_records import AccountStore, Organisation, Project
from auth_billing.people.people_records import Invitation, InvitationStore, Membership, MembershipStore, User, UserStore
from auth_billing.people.session_records import SessionRecord, SessionStore
from auth_billing.store.accounts import MongoAccountStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from auth_billing.store.invitations import MongoInvitationStore
from auth_billing.store.memberships import MongoMembershipStore
from auth_billing.store.sessions import MongoSessionStore
from auth_billing.store.users import MongoUserStore
from tests.fakes.accounts import DictAccountStore
from tests.fakes.people import DictInvitationStore, DictMembershipStore, DictUserStore
from tests.fakes.sessions import DictSessionStore

ADA = User("user-ada", "Ada@Example.org", "Ada", 1.5, "$argon2id$old")
INVITATION = Invitation("invite-1", b"\0digest\xff", "org-1", Role.MEMBER, "", 1.0, 100.0, "user-ada")


@dataclass
class Stores:
    users: UserStore
    memberships: MembershipStore
    invitations: InvitationStore
    accounts: AccountStore
    sessions: SessionStore


@pytest.fixture(params=["dictionaries", pytest.param("store", marks=pytest.mark.store)])
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    if request.param == "dictionaries":
        yield Stores(
            DictUserStore(), DictMembershipStore(), DictInvitationStore(), DictAccountStore(), DictSessionStore()
        )
        return
    connection = StoreConnection(request.getfixturevalue("database_url"), operation_ms=20_000)
    await create_indexes(connection)
    yield Stores(
        MongoUserStore(connection),
        MongoMembershipStore(connection),
        MongoInvitationStore(connection),
        MongoAccountStore(connection),
        MongoSessionStore(connection),
    )
    connection.close()


async def test_an_address_is_one_persons_however_it_is_written(stores: Stores) -> None:
    assert await stores.users.add(ADA)
    for spelling in ("ada@example.org", "ADA@EXAMPLE.ORG", "ａｄａ@example.org"):
        assert not await stores.users.add(replace(ADA, id="user-2", email=spelling))
        assert await stores.users.find_by_email(spelling) == ADA
    assert await stores.users.find("user-2") is None
    assert await stores.users.find_all(["user-ada", "user-2"]) == [ADA]


async def test_of_many_who_sign_up_with_one_address_one_does(stores: Stores) -> None:
    added = await asyncio.gather(*(stores.users.add(replace(ADA, id=f"user-{number}")) for number in range(8)))
    assert added.count(True) == 1


async def test_a_password_is_replaced_only_if_it_is_still_the_one(stores: Stores) -> None:
    await stores.users.add(ADA)
    assert await stores.users.rehash("user-ada", "$argon2id$old", "$argon2id$stronger")
    assert not await stores.users.rehash("user-ada", "$argon2id$old", "$argon2id$other")
    assert await stores.users.change_password("user-ada", "$argon2id$old", "x") is None
    changed = await stores.users.change_password("user-ada", "$argon2id$stronger", "$argon2id$new")
    assert changed == replace(ADA, password="$argon2id$new", version=1)
    await stores.users.end_sessions("user-ada")
    assert await stores.users.find("user-ada") == replace(ADA, password="$argon2id$new", version=2)


async def test_memberships(stores: Stores) -> None:
    first = Membership("org-1", "user-ada", Role.OWNER, 1.0)
    second = Membership("org-1", "user-bob", Role.MEMBER, 2.0)
    elsewhere = Membership("org-2", "user-ada", Role.VIEWER, 3.0)
    for each in (elsewhere, second, first, replace(second, role=Role.OWNER)):
        await stores.memberships.add(each)
    assert await stores.memberships.of_organisation("org-1") == [first, second]
    assert await stores.memberships.of_user("user-ada") == [first, elsewhere]
    assert [await stores.memberships.has_owner(each) for each in ("org-1", "org-2")] == [True, False]
    assert not await stores.memberships.has_owner("org-1", besides="user-ada")
    assert await stores.memberships.has_owner("org-1", besides="user-bob")
    assert await stores.memberships.set_role("org-1", "user-bob", Role.VIEWER)
    assert await stores.memberships.find("org-1", "user-bob") == replace(second, role=Role.VIEWER)
    assert not await stores.memberships.set_role("org-2", "user-bob", Role.OWNER)
    assert await stores.memberships.remove("org-1", "user-bob")
    assert not await stores.memberships.remove("org-1", "user-bob")


async def test_an_invitation_is_used_once_and_by_one(stores: Stores) -> None:
    await stores.invitations.add(INVITATION)
    claims = [stores.invitations.claim(INVITATION.digest, f"user-{number}", 50.0) for number in range(8)]
    claimed = await asyncio.gather(*claims)
    assert claimed.count(True) == 1
    winner = f"user-{claimed.index(True)}"
    assert await stores.invitations.claim(INVITATION.digest, winner, 60.0)  # its answer may have been lost
    assert not await stores.invitations.revoke("org-1", INVITATION.id, 60.0)
    found = await stores.invitations.find_by_digest(INVITATION.digest)
    assert found == replace(INVITATION, accepted=50.0, accepted_by=winner)


async def test_an_expired_or_revoked_invitation_lets_nobody_in(stores: Stores) -> None:
    await stores.invitations.add(INVITATION)
    assert not await stores.invitations.claim(INVITATION.digest, "user-bob", 100.0)
    assert not await stores.invitations.revoke("org-2", INVITATION.id, 5.0)
    assert await stores.invitations.find("org-2", INVITATION.id) is None
    assert await stores.invitations.revoke("org-1", INVITATION.id, 5.0)
    assert not await stores.invitations.claim(INVITATION.digest, "user-bob", 50.0)


async def test_links_of_the_launcher_are_replaced_and_peoples_stay(stores: Stores) -> None:
    links = [INVITATION, replace(INVITATION, id="invite-2", digest=b"2", invited_by="", created=2.0)]
    for each in links:
        await stores.invitations.add(each)
    await stores.invitations.revoke_unowned("org-1", 9.0)
    assert await stores.invitations.of_organisation("org-1") == [replace(links[1], revoked=9.0), links[0]]


async def test_of_two_owners_who_both_go_one_stays(stores: Stores) -> None:
    await stores.accounts.ensure_organisation(Organisation("org-1", "Org", 1.0))
    for user in ("user-ada", "user-bob"):
        await stores.accounts.add_owner("org-1", user)
        await stores.accounts.add_owner("org-1", user)
    gone = await asyncio.gather(*(stores.accounts.give_up_owner("org-1", user) for user in ("user-ada", "user-bob")))
    assert sorted(gone) == [False, True]
    assert await stores.accounts.give_up_owner("org-1", "user-nobody")


async def test_projects_belong_to_their_organisation(stores: Stores) -> None:
    await stores.accounts.ensure_organisation(Organisation("org-1", "Org", 1.0))
    assert await stores.accounts.find_organisation("org-1") == Organisation("org-1", "Org", 1.0)
    assert await stores.accounts.find_organisation("org-2") is None
    project = Project("proj_1", "org-1", "Web", 2.0)
    for each in (project, Project("proj_0", "org-1", "App", 1.0), Project("proj_2", "org-2", "Other", 0.5)):
        await stores.accounts.ensure_project(each)
    assert [each.id for each in await stores.accounts.projects("org-1")] == ["proj_0", "proj_1"]
    assert await stores.accounts.find_project("org-2", "proj_1") is None
    await stores.accounts.rename_project("org-2", "proj_1", "Stolen")
    await stores.accounts.archive_project("org-2", "proj_1", 5.0)
    assert await stores.accounts.find_project("org-1", "proj_1") == project
    await stores.accounts.rename_project("org-1", "proj_1", "Site")
    for now in (6.0, 7.0):
        await stores.accounts.archive_project("org-1", "proj_1", now)
    assert await stores.accounts.find_project("org-1", "proj_1") == replace(project, name="Site", archived=6.0)


SESSION = SessionRecord("sess-1", "user-ada", "org-1", 0, 1.0, 4e9, 1.0, b"0")


async def test_a_refresh_token_is_exchanged_by_one_of_many(stores: Stores) -> None:
    await stores.sessions.add(SESSION)
    assert await stores.sessions.find("sess-1") == SESSION
    exchanges = [stores.sessions.rotate("sess-1", b"0", b"new%d" % number, b"seal", 5.0) for number in range(8)]
    exchanged = await asyncio.gather(*exchanges)
    assert exchanged.count(True) == 1
    new = b"new%d" % exchanged.index(True)
    assert await stores.sessions.find("sess-1") == replace(
        SESSION, current=new, previous=b"0", sealed=b"seal", used=5.0
    )


async def test_a_session_that_was_ended_stays_so(stores: Stores) -> None:
    await stores.sessions.add(SESSION)
    for now in (5.0, 6.0):
        await stores.sessions.revoke("sess-1", now)
    assert not await stores.sessions.rotate("sess-1", b"0", b"1", b"seal", 7.0)
    assert await stores.sessions.find("sess-1") == replace(SESSION, revoked=5.0)
    assert await stores.sessions.find("sess-2") is None
