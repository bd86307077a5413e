"""Password reset links: used once, within the hour, by right of their maker; no session survives."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import (
    InvalidCredentials,
    InvalidSession,
    NotPermitted,
    ResetLinkVoid,
    TooManySignIns,
    UnacceptableValue,
)
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.local_owner import local_owner_email
from auth_billing.people.oidc.identity_records import Identity
from auth_billing.people.password_reset import SECONDS_VALID
from auth_billing.people.people_records import User
from auth_billing.people.sessions import SignedIn
from auth_billing.people.throttle import PER_MINUTE
from tests.fakes.sessions import ORGANISATION, PASSWORD, PeopleFixture

FRESH = "another password"


@pytest.fixture
async def member(people: PeopleFixture, access: BrowserAccess) -> SignedIn:
    return await people.sign_up_member(access, Role.MEMBER)


@pytest.fixture
async def admin(people: PeopleFixture, access: BrowserAccess) -> SignedIn:
    return await people.sign_up_member(access, Role.ADMIN)


async def test_a_link_sets_the_password_once_and_ends_all_sessions(
    people: PeopleFixture, access: BrowserAccess, member: SignedIn, admin: SignedIn
) -> None:
    user, token = await access.reset_links.make_for_member(admin.session.actor, member.session.user.id)
    assert user == member.session.user
    assert token not in repr(people.resets.resets)
    with pytest.raises(UnacceptableValue):
        await access.password_reset.use(token, "short", "10.0.0.1")
    assert (await access.password_reset.use(token, FRESH, "10.0.0.1")).id == user.id
    with pytest.raises(InvalidSession):
        await access.sessions.authenticate(member.access, cached=False)
    with pytest.raises(InvalidCredentials):
        await access.sign_in.sign_in(user.email, PASSWORD, "10.0.0.1")
    assert await access.sign_in.sign_in(user.email, FRESH, "10.0.0.1")
    with pytest.raises(ResetLinkVoid):
        await access.password_reset.use(token, PASSWORD, "10.0.0.1")
    assert people.resets.resets == {}


@pytest.mark.parametrize(
    ("issuer", "password_sign_in", "connected"), [("", True, False), ("https://idp", True, True), ("", False, True)]
)
async def test_a_reset_disconnects_identities_of_people_who_sign_in_with_the_password(
    people: PeopleFixture, member: SignedIn, issuer: str, password_sign_in: bool, connected: bool
) -> None:
    user, access = member.session.user, people.process(password_sign_in=password_sign_in)
    for each in (Identity("1", "https://idp", "eve", user.id, 1.0), Identity("2", "https://idp", "bob", "user-2", 1.0)):
        await people.identities.add(each)
    (membership,) = await people.memberships.of_user(user.id)
    await people.memberships.remove(ORGANISATION, user.id)
    await people.memberships.add(replace(membership, issuer=issuer))
    await access.password_reset.use(await access.reset_links.make(user), FRESH, "10.0.0.1")
    assert (await people.identities.find("1") is not None) == connected
    assert await people.identities.find("2") is not None


async def test_of_concurrent_uses_one_counts(people: PeopleFixture, member: SignedIn) -> None:
    token = await people.process().reset_links.make(member.session.user)
    uses = [people.process().password_reset.use(token, f"password no {n}", f"10.0.1.{n}") for n in range(8)]
    outcomes = await asyncio.gather(*uses, return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["ResetLinkVoid"] * 7 + ["User"]


async def test_a_newer_link_voids_the_older(access: BrowserAccess, member: SignedIn) -> None:
    old, new = [await access.reset_links.make(member.session.user) for _ in range(2)]
    with pytest.raises(ResetLinkVoid):
        await access.password_reset.use(old, FRESH, "10.0.0.1")
    assert await access.password_reset.use(new, FRESH, "10.0.0.1")


async def test_a_link_expires(people: PeopleFixture, access: BrowserAccess, member: SignedIn) -> None:
    token = await access.reset_links.make(member.session.user)
    people.clock.now += SECONDS_VALID
    with pytest.raises(ResetLinkVoid):
        await access.password_reset.use(token, FRESH, "10.0.0.1")


@pytest.mark.parametrize("token", ["", "x", "é\ud800", "x" * 100_000])
async def test_unknown_tokens_are_refused(access: BrowserAccess, token: str) -> None:
    with pytest.raises(ResetLinkVoid):
        await access.password_reset.use(token, FRESH, "10.0.0.1")


async def test_uses_are_throttled_by_address(access: BrowserAccess) -> None:
    for _ in range(PER_MINUTE):
        with pytest.raises(ResetLinkVoid):
            await access.password_reset.use("x", FRESH, "10.0.9.1")
    with pytest.raises(TooManySignIns):
        await access.password_reset.use("x", FRESH, "10.0.9.1")


async def test_a_change_of_the_password_voids_the_link(access: BrowserAccess, member: SignedIn) -> None:
    token = await access.reset_links.make(member.session.user)
    await access.sign_in.change_password(member.session, PASSWORD, "a third password", "10.0.0.1")
    with pytest.raises(ResetLinkVoid):
        await access.password_reset.use(token, FRESH, "10.0.0.2")


async def test_a_link_needs_its_makers_right_at_its_use(
    people: PeopleFixture, access: BrowserAccess, member: SignedIn, admin: SignedIn
) -> None:
    owner = (await people.sign_up_member(access, Role.OWNER)).session.actor
    user = member.session.user.id

    async def use() -> None:
        with pytest.raises(ResetLinkVoid):
            await access.password_reset.use(token, FRESH, "10.0.2.1")

    _, token = await access.reset_links.make_for_member(admin.session.actor, user)
    await access.members.join("org-other", user, Role.VIEWER, 1.0)  # which the administrator must not get into
    await use()
    await people.memberships.remove("org-other", user)
    await access.members.change_role(owner, user, Role.ADMIN)
    await use()
    await access.members.change_role(owner, user, Role.MEMBER)
    await access.members.remove(owner, admin.session.user.id)
    await use()
    assert await access.sign_in.sign_in(member.session.user.email, PASSWORD, "10.0.0.1")


async def test_administrators_make_no_links_for_their_equals(people: PeopleFixture, access: BrowserAccess) -> None:
    people_of = {role: (await people.sign_up_member(access, role)).session for role in Role}
    for role in (Role.OWNER, Role.ADMIN):
        with pytest.raises(NotPermitted):
            await access.reset_links.make_for_member(people_of[Role.ADMIN].actor, people_of[role].user.id)
    with pytest.raises(NotPermitted):
        await access.reset_links.make_for_member(people_of[Role.MEMBER].actor, people_of[Role.VIEWER].user.id)


async def test_accounts_without_a_password_get_none(access: BrowserAccess) -> None:
    local = User("user-local-org", local_owner_email(ORGANISATION), "Owner", 1.0, "hash")
    for user in (local, User("user-ada", "ada@example.org", "Ada", 1.0, password="")):  # of an identity provider
        with pytest.raises(NotPermitted):
            await access.reset_links.make(user)
