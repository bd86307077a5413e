"""Invitations in MongoDB and in memory: accepted by one user, void when expired or revoked."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from auth_billing.access.roles import Role
from auth_billing.people.people_records import Invitation
from tests.auth_billing.store.conftest import PeopleStores

INVITATION = Invitation("invite-1", b"\0digest\xff", "org-1", Role.MEMBER, "", 1.0, 100.0, "user-ada")


async def test_an_invitation_is_accepted_by_one_user(people: PeopleStores) -> None:
    await people.invitations.add(INVITATION)
    claims = [people.invitations.claim(INVITATION.digest, f"user-{number}", 50.0) for number in range(8)]
    claimed = await asyncio.gather(*claims)
    assert claimed.count(True) == 1
    winner = f"user-{claimed.index(True)}"
    assert not await people.invitations.claim(INVITATION.digest, winner, 60.0)
    assert not await people.invitations.revoke("org-1", INVITATION.id, 60.0)
    found = await people.invitations.find_by_digest(INVITATION.digest)
    assert found == replace(INVITATION, accepted=50.0, accepted_by=winner)


async def test_an_expired_or_revoked_invitation_is_refused(people: PeopleStores) -> None:
    await people.invitations.add(INVITATION)
    assert not await people.invitations.claim(INVITATION.digest, "user-bob", 100.0)
    assert not await people.invitations.revoke("org-2", INVITATION.id, 5.0)
    assert await people.invitations.find("org-2", INVITATION.id) is None
    assert await people.invitations.revoke("org-1", INVITATION.id, 5.0)
    assert not await people.invitations.claim(INVITATION.digest, "user-bob", 50.0)


async def test_only_owner_links_of_no_user_are_revoked_together(people: PeopleStores) -> None:
    link = replace(INVITATION, id="invite-2", digest=b"2", role=Role.OWNER, invited_by="", created=2.0)
    for_bob = replace(link, id="invite-3", digest=b"3", email="bob@example.org", created=3.0)
    for_a_member = replace(link, id="invite-4", digest=b"4", role=Role.MEMBER, created=4.0)
    for each in (INVITATION, link, for_bob, for_a_member):
        await people.invitations.add(each)
    await people.invitations.revoke_unowned("org-1", 9.0)
    assert await people.invitations.of_organisation("org-1") == [
        for_a_member,
        for_bob,
        replace(link, revoked=9.0),
        INVITATION,
    ]
