"""Sign-up: with the role of an invitation only, or with a new organisation where registration is open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import (
    EmailTaken,
    InvalidCredentials,
    InvitationVoid,
    LastOwner,
    SignUpClosed,
    UnacceptableValue,
)
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.organisation_records import Organisation
from tests.fakes.sessions import ORGANISATION, PASSWORD, PeopleFixture, sign_up_input


async def test_an_invitation_grants_its_role_once(people: PeopleFixture, access: BrowserAccess) -> None:
    token = await people.invite(Role.ADMIN)
    signed_in = await access.sign_up.accept_invitation(token, sign_up_input("ada"))
    assert (signed_in.session.role, signed_in.session.organisation) == (Role.ADMIN, ORGANISATION)
    for name in ("eve", "ada"):
        with pytest.raises(InvitationVoid):
            await access.sign_up.accept_invitation(token, sign_up_input(name))
    assert await people.users.find_by_email("eve@example.org") is None


async def test_an_invitation_with_an_address_is_for_that_address_only(
    people: PeopleFixture, access: BrowserAccess
) -> None:
    token = await people.invite(Role.MEMBER, email="Ada@Example.org")
    with pytest.raises(InvitationVoid):
        await access.sign_up.accept_invitation(token, sign_up_input("eve"))
    assert (await access.sign_up.accept_invitation(token, sign_up_input("ada"))).session.role is Role.MEMBER


async def test_without_an_invitation_existing_accounts_are_not_revealed(
    people: PeopleFixture, access: BrowserAccess
) -> None:
    await people.sign_up_member(access, Role.MEMBER)
    for who in (sign_up_input("member"), sign_up_input("member", "wrong password"), sign_up_input("unknown")):
        with pytest.raises(InvitationVoid):
            await access.sign_up.accept_invitation("x" * 43, who)


async def test_an_existing_account_joins_with_its_password(people: PeopleFixture, access: BrowserAccess) -> None:
    first = await people.sign_up_member(access, Role.MEMBER)
    token = await people.invite(Role.OWNER, "org-other")
    with pytest.raises(InvalidCredentials):
        await access.sign_up.accept_invitation(token, sign_up_input("member", "wrong password"))
    joined = await access.sign_up.accept_invitation(token, sign_up_input("member"))
    assert joined.session.user.id == first.session.user.id
    assert (joined.session.organisation, joined.session.role) == ("org-other", Role.OWNER)
    sign_in = access.sign_in.sign_in
    assert (await sign_in("member@example.org", PASSWORD, "10.0.0.1")).session.organisation == ORGANISATION
    chosen = await sign_in("member@example.org", PASSWORD, "10.0.0.1", "org-other")
    assert chosen.session.organisation == "org-other"
    with pytest.raises(InvalidCredentials):
        await sign_in("member@example.org", PASSWORD, "10.0.0.1", "org-foreign")


async def test_the_first_owner_is_counted_as_an_owner(people: PeopleFixture, access: BrowserAccess) -> None:
    await people.accounts.ensure_organisation(Organisation("org-new", "New", 1.0))
    token = await access.invitations.invite_first_owner("org-new")
    owner = await access.sign_up.accept_invitation(token, sign_up_input("ada"))
    assert owner.session.project == ""
    with pytest.raises(LastOwner):
        await access.members.remove(owner.session.actor, owner.session.user.id)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"email": "a@b\r\nBcc: c@d"}, "email"),
        ({"email": ""}, "email"),
        ({"name": "x" * 10_000}, "name"),
        ({"name": ""}, "name"),
        ({"password": "short"}, "password"),
        ({"password": "x" * 1_000_000}, "password"),
    ],
)
async def test_invalid_sign_ups_are_refused(
    people: PeopleFixture, access: BrowserAccess, change: dict[str, str], param: str
) -> None:
    token = await people.invite(Role.MEMBER)
    with pytest.raises(UnacceptableValue) as caught:
        await access.sign_up.accept_invitation(token, replace(sign_up_input("ada"), **change))
    assert caught.value.param == param
    assert await access.sign_up.accept_invitation(token, sign_up_input("ada"))  # the invitation is not used up


async def test_self_registration_is_off_by_default(people: PeopleFixture, access: BrowserAccess) -> None:
    with pytest.raises(SignUpClosed):
        await access.sign_up.register(sign_up_input("ada"), "Ada's")


async def test_self_registration_creates_an_organisation(people: PeopleFixture) -> None:
    access = people.process(open_sign_up=True)
    ada = await access.sign_up.register(sign_up_input("ada"), "Ada's")
    bob = await access.sign_up.register(sign_up_input("bob"), "Bob's")
    assert ada.session.organisation != bob.session.organisation
    assert (ada.session.role, ada.session.project) != (Role.OWNER, "")
    for who in (sign_up_input("ada"), sign_up_input("ADA", "another password")):
        with pytest.raises(EmailTaken):
            await access.sign_up.register(who, "Another")
    assert len(await access.members.all(ada.session.organisation)) == 1
