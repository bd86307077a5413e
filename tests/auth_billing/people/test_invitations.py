"""Invitations: permissions, single use and refusals."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import InvitationVoid, NoSuchRecord, NotPermitted
from auth_billing.people.invitations import DAYS_VALID
from auth_billing.people.people_records import InvitationStatus
from tests.auth_billing.people.conftest import ORG, PeopleFixture

ONE_PER_ROLE = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "viewer": Role.VIEWER}


async def test_a_token_opens_its_invitation_and_is_not_stored(people: PeopleFixture) -> None:
    await people.add_members(admin=Role.ADMIN)
    invitation, token = await people.invitations.invite(people.actor("admin"), Role.MEMBER, "Bob@Example.org")
    assert await people.invitations.open(token) == invitation
    assert token not in repr(vars(invitation))
    assert (invitation.email, invitation.invited_by) == ("Bob@Example.org", "admin")


@pytest.mark.parametrize("token", ["", "x", "' OR '1'='1", '{"$ne": 1}', "\0", "\ud800", "é" * 43, "x" * 1_000_000])
async def test_unknown_tokens_are_refused(people: PeopleFixture, token: str) -> None:
    await people.add_members(admin=Role.ADMIN)
    await people.invitations.invite(people.actor("admin"), Role.MEMBER)
    with pytest.raises(InvitationVoid):
        await people.invitations.open(token)


async def test_expired_accepted_and_revoked_invitations_are_refused(people: PeopleFixture) -> None:
    await people.add_members(admin=Role.ADMIN)
    (used, a), (revoked, b), (expired, c) = [
        await people.invitations.invite(people.actor("admin"), Role.MEMBER) for _ in range(3)
    ]
    await people.invitations.claim(a, "user-1")
    await people.invitations.revoke(people.actor("admin"), revoked.id)
    people.clock.now += DAYS_VALID * 86_400
    for token in (a, b, c):
        with pytest.raises(InvitationVoid):
            await people.invitations.open(token)
        with pytest.raises(InvitationVoid):
            await people.invitations.claim(token, "user-2")
    statuses = {each.id: each.status(people.clock()) for each in await people.invitations.all(ORG)}
    assert statuses == {
        used.id: InvitationStatus.ACCEPTED,
        revoked.id: InvitationStatus.REVOKED,
        expired.id: InvitationStatus.EXPIRED,
    }


@pytest.mark.parametrize(
    ("actor", "role"),
    [("viewer", Role.VIEWER), ("member", Role.VIEWER), ("member", Role.OWNER), ("admin", Role.OWNER)],
)
async def test_an_actor_cannot_invite_to_a_higher_role(people: PeopleFixture, actor: str, role: Role) -> None:
    await people.add_members(**ONE_PER_ROLE)
    with pytest.raises(NotPermitted):
        await people.invitations.invite(people.actor(actor), role)


async def test_an_administrator_does_not_revoke_an_owners_invitation(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    invitation, _ = await people.invitations.invite(people.actor("owner"), Role.OWNER)
    with pytest.raises(NotPermitted):
        await people.invitations.revoke(people.actor("admin"), invitation.id)
    with pytest.raises(NotPermitted):
        await people.invitations.revoke(people.actor("viewer"), "invite-unknown")  # and is not told that there is none
    with pytest.raises(NoSuchRecord):
        await people.invitations.revoke(Actor("org-2", "", Role.OWNER), invitation.id)


async def test_a_new_first_owner_link_voids_the_previous_one(people: PeopleFixture) -> None:
    first = await people.invitations.invite_first_owner(ORG)
    second = await people.invitations.invite_first_owner(ORG)
    with pytest.raises(InvitationVoid):
        await people.invitations.open(first)
    assert (await people.invitations.open(second)).role is Role.OWNER
