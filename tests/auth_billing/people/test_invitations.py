"""Invitations: permissions, single use and refusals."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import InvitationVoid, NoSuchRecord, NotPermitted
from auth_billing.people.invitations import DAYS_VALID
from auth_billing.people.people_records import InvitationStatus
from tests.auth_billing.people.conftest import ORG, TeamFixture

ONE_PER_ROLE = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "viewer": Role.VIEWER}


async def test_a_token_opens_its_invitation_and_is_not_stored(team: TeamFixture) -> None:
    await team.add_members(admin=Role.ADMIN)
    invitation, token = await team.invitations.invite(team.actor("admin"), Role.MEMBER, "Bob@Example.org")
    assert await team.invitations.open(token) == invitation
    assert token not in repr(vars(invitation))
    assert (invitation.email, invitation.invited_by) == ("Bob@Example.org", "admin")


@pytest.mark.parametrize("token", ["", "x", "' OR '1'='1", '{"$ne": 1}', "\0", "\ud800", "é" * 43, "x" * 1_000_000])
async def test_unknown_tokens_are_refused(team: TeamFixture, token: str) -> None:
    await team.add_members(admin=Role.ADMIN)
    await team.invitations.invite(team.actor("admin"), Role.MEMBER)
    with pytest.raises(InvitationVoid):
        await team.invitations.open(token)


async def test_expired_accepted_and_revoked_invitations_are_refused(team: TeamFixture) -> None:
    await team.add_members(admin=Role.ADMIN)
    (used, a), (revoked, b), (expired, c) = [
        await team.invitations.invite(team.actor("admin"), Role.MEMBER) for _ in range(3)
    ]
    await team.invitations.claim(a, "user-1")
    await team.invitations.revoke(team.actor("admin"), revoked.id)
    team.clock.now += DAYS_VALID * 86_400
    for token in (a, b, c):
        with pytest.raises(InvitationVoid):
            await team.invitations.open(token)
        with pytest.raises(InvitationVoid):
            await team.invitations.claim(token, "user-2")
    statuses = {each.id: each.status(team.clock()) for each in await team.invitations.all(ORG)}
    assert statuses == {
        used.id: InvitationStatus.ACCEPTED,
        revoked.id: InvitationStatus.REVOKED,
        expired.id: InvitationStatus.EXPIRED,
    }


@pytest.mark.parametrize(
    ("actor", "role"),
    [("viewer", Role.VIEWER), ("member", Role.VIEWER), ("member", Role.OWNER), ("admin", Role.OWNER)],
)
async def test_an_actor_cannot_invite_to_a_higher_role(team: TeamFixture, actor: str, role: Role) -> None:
    await team.add_members(**ONE_PER_ROLE)
    with pytest.raises(NotPermitted):
        await team.invitations.invite(team.actor(actor), role)


async def test_an_administrator_does_not_revoke_an_owners_invitation(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    invitation, _ = await team.invitations.invite(team.actor("owner"), Role.OWNER)
    with pytest.raises(NotPermitted):
        await team.invitations.revoke(team.actor("admin"), invitation.id)
    with pytest.raises(NotPermitted):
        await team.invitations.revoke(team.actor("viewer"), "invite-unknown")  # and is not told that there is none
    with pytest.raises(NoSuchRecord):
        await team.invitations.revoke(Actor("org-2", "", Role.OWNER), invitation.id)


async def test_a_new_first_owner_link_voids_the_previous_one(team: TeamFixture) -> None:
    first = await team.invitations.invite_first_owner(ORG)
    second = await team.invitations.invite_first_owner(ORG)
    with pytest.raises(InvitationVoid):
        await team.invitations.open(first)
    assert (await team.invitations.open(second)).role is Role.OWNER
