"""The local owner signs in by a launcher's link, once per link, until a user with a password owns the organisation."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import InvitationVoid
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.local_owner import is_unowned, local_owner_email
from auth_billing.people.people_records import User
from tests.fakes.sessions import ORGANISATION, PASSWORD, PeopleFixture, sign_up_input


async def launched(people: PeopleFixture) -> tuple[BrowserAccess, str]:
    """Return the access of a process, and a launcher's link to an organisation without members."""
    await people.invite(Role.VIEWER)
    access = people.process()
    return access, await access.invitations.invite_first_owner(ORGANISATION)


async def test_a_link_signs_the_owner_in_once(people: PeopleFixture) -> None:
    access, token = await launched(people)
    signed_in = await access.local_owner.sign_in(token)
    assert (signed_in.session.role, signed_in.session.user.email) == (Role.OWNER, local_owner_email(ORGANISATION))
    with pytest.raises(InvitationVoid):
        await access.local_owner.sign_in(token)


async def test_the_next_link_signs_the_same_user_in(people: PeopleFixture) -> None:
    access, token = await launched(people)
    first = await access.local_owner.sign_in(token)
    assert await is_unowned(people.users, people.memberships, ORGANISATION)
    again = await access.local_owner.sign_in(await access.invitations.invite_first_owner(ORGANISATION))
    assert again.session.user.id == first.session.user.id
    assert len(people.users.users) == 1


async def test_once_a_user_owns_the_organisation_links_are_refused(people: PeopleFixture) -> None:
    access, token = await launched(people)
    await people.sign_up_member(access, Role.OWNER)
    assert not await is_unowned(people.users, people.memberships, ORGANISATION)
    with pytest.raises(InvitationVoid):
        await access.local_owner.sign_in(token)


@pytest.mark.parametrize(("role", "email"), [(Role.ADMIN, ""), (Role.OWNER, "a@example.org")])
async def test_other_invitations_do_not_sign_the_owner_in(people: PeopleFixture, role: Role, email: str) -> None:
    token = await people.invite(role, email=email)
    with pytest.raises(InvitationVoid):
        await people.process().local_owner.sign_in(token)


async def test_another_user_with_the_local_owners_address_is_not_signed_in(people: PeopleFixture) -> None:
    access, token = await launched(people)
    hash_ = await people.passwords.hash(PASSWORD)
    await people.users.add(User("user-eve", local_owner_email(ORGANISATION).upper(), "Owner", 1.0, hash_))
    await access.members.join(ORGANISATION, "user-eve", Role.ADMIN, 1.0)
    with pytest.raises(InvitationVoid):
        await access.local_owner.sign_in(token)
    assert (await access.members.find(ORGANISATION, "user-eve")).role is Role.ADMIN
    assert await people.sign_up_member(access, Role.MEMBER)
    owner = await access.sign_up.accept_invitation(token, sign_up_input("ada"))  # the other link still works
    assert owner.session.role is Role.OWNER


async def test_the_local_owner_has_no_known_password(people: PeopleFixture) -> None:
    access, token = await launched(people)
    await access.local_owner.sign_in(token)
    (user,) = people.users.users.values()
    assert not await people.passwords.verify(user.password, PASSWORD)
