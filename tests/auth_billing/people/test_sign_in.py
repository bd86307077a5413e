"""Sign-in and sign-up: throttled, without revealing accounts, and with the invitation's role only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import argon2
import pytest

from auth_billing.access.roles import Role
from auth_billing.access.scopes import ADMIN_SCOPES, PROJECT_SCOPES, Scope
from auth_billing.authenticator import Authenticator
from auth_billing.errors import (
    EmailTaken,
    InvalidCredentials,
    InvitationVoid,
    LastOwner,
    SignUpClosed,
    TooManySignIns,
    UnacceptableValue,
)
from auth_billing.keys.key_format import generate
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.organisation_records import Organisation
from auth_billing.people.passwords import Passwords
from auth_billing.people.throttle import PER_MINUTE, network_of
from tests.auth_billing.people.test_passwords import Counting
from tests.fakes.accounts import DictApiKeyStore
from tests.fakes.sessions import CHEAP, ORGANISATION, PASSWORD, PEPPER, PeopleFixture, sign_up_input


@pytest.fixture
def people() -> Iterator[PeopleFixture]:
    people = PeopleFixture()
    yield people
    people.passwords.close()


@pytest.fixture
def access(people: PeopleFixture) -> BrowserAccess:
    return people.process()


def addresses() -> Iterator[str]:
    return (f"10.{number // 250}.{number % 250}.1" for number in range(10**6))


async def test_the_address_is_compared_case_folded(people: PeopleFixture, access: BrowserAccess) -> None:
    await people.sign_up_member(access, Role.MEMBER)
    for email in ("member@example.org", "MEMBER@Example.ORG", "ｍember@example.org"):
        assert (await access.sign_in.sign_in(email, PASSWORD, "10.0.0.1")).session.role is Role.MEMBER


async def test_an_unknown_address_costs_the_same_as_a_wrong_password(people: PeopleFixture) -> None:
    hasher = Counting()
    access = people.process(passwords=Passwords(hasher))
    await people.sign_up_member(access, Role.MEMBER)
    hasher.checked.clear()
    work = []
    for email in ("member@example.org", "unknown@example.org", "x" * 100_000):
        before = people.users.absence.asked
        with pytest.raises(InvalidCredentials) as caught:
            await access.sign_in.sign_in(email, "wrong password", "10.0.0.1")
        work.append((people.users.absence.asked - before, len(hasher.checked)))
        hasher.checked.clear()
        assert email not in str(caught.value)
    assert work == [(1, 1), (1, 1), (0, 1)]


@pytest.mark.parametrize("wrong", ["", "x", "\0", "x" * 1_000_000, "correct horsе", "Correct horse", "\ud800"])
async def test_wrong_passwords_are_refused(people: PeopleFixture, access: BrowserAccess, wrong: str) -> None:
    await people.sign_up_member(access, Role.MEMBER)
    with pytest.raises(InvalidCredentials):
        await access.sign_in.sign_in("member@example.org", wrong, "10.0.0.1")


async def test_ten_attempts_a_minute_per_account(people: PeopleFixture) -> None:
    hasher = Counting()
    access = people.process(passwords=Passwords(hasher))
    await people.sign_up_member(access, Role.MEMBER)
    people.clock.now += 60
    hasher.checked.clear()
    outcomes: list[type[Exception]] = []
    for address, email in zip(addresses(), ["member@example.org", "MEMBER@example.org"] * 15, strict=False):
        gateway = people.process(passwords=Passwords(hasher))  # whichever gateway it meets
        with pytest.raises((InvalidCredentials, TooManySignIns)) as caught:
            await gateway.sign_in.sign_in(email, "wrong password", address)
        outcomes.append(caught.type)
    assert outcomes == [InvalidCredentials] * PER_MINUTE + [TooManySignIns] * 20
    assert len(hasher.checked) == PER_MINUTE  # who is throttled costs nothing
    people.clock.now += 60
    assert await access.sign_in.sign_in("member@example.org", PASSWORD, "10.0.0.1")


async def test_ten_attempts_a_minute_per_network_address(people: PeopleFixture, access: BrowserAccess) -> None:
    refused = 0
    for number in range(100):
        with pytest.raises((InvalidCredentials, TooManySignIns)) as caught:
            await access.sign_in.sign_in(f"user-{number}@example.org", "one password", f"2001:db8::{number:x}")
        if caught.type is TooManySignIns:
            refused += 1
            assert 0 < caught.value.wait <= 60
    assert refused == 100 - PER_MINUTE


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("x; DROP", "unknown"),
    ],
)
def test_ipv6_addresses_count_by_network(address: str, network: str) -> None:
    assert network_of(address) == network


async def test_a_weak_hash_is_replaced_at_sign_in(people: PeopleFixture) -> None:
    weak = Passwords(argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1, hash_len=16))
    signed_in = await people.sign_up_member(people.process(passwords=weak), Role.MEMBER)
    before = people.users.users[signed_in.session.user.id]
    access = people.process(passwords=Passwords(CHEAP))
    assert await access.sign_in.sign_in("member@example.org", PASSWORD, "10.0.0.1")
    after = people.users.users[before.id]
    assert after.password != before.password
    assert after.version == before.version  # no session is ended by it
    await access.sign_in.sign_in("member@example.org", PASSWORD, "10.0.0.1")
    assert people.users.users[before.id] == after


async def test_changing_the_password_needs_the_old_one(people: PeopleFixture, access: BrowserAccess) -> None:
    signed_in = await people.sign_up_member(access, Role.MEMBER)
    with pytest.raises(InvalidCredentials):
        await access.sign_in.change_password(signed_in.session, "wrong", "another password", "10.0.0.1")
    with pytest.raises(UnacceptableValue):
        await access.sign_in.change_password(signed_in.session, PASSWORD, "short", "10.0.0.1")
    assert await access.sign_in.change_password(signed_in.session, PASSWORD, "another password", "10.0.0.1")
    with pytest.raises(InvalidCredentials):
        await access.sign_in.sign_in("member@example.org", PASSWORD, "10.0.0.1")
    assert await access.sign_in.sign_in("member@example.org", "another password", "10.0.0.1")


async def test_an_invitation_grants_its_role_once(people: PeopleFixture, access: BrowserAccess) -> None:
    token = await people.invite(Role.ADMIN)
    signed_in = await access.sign_up.accept_invitation(token, sign_up_input("ada"))
    assert (signed_in.session.role, signed_in.session.organisation) == (Role.ADMIN, ORGANISATION)
    with pytest.raises(InvitationVoid):
        await access.sign_up.accept_invitation(token, sign_up_input("eve"))
    assert await people.users.find_by_email("eve@example.org") is None
    again = await access.sign_up.accept_invitation(token, sign_up_input("ada"))  # the first answer had got lost
    assert again.session.user == signed_in.session.user


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


async def test_a_sessions_principal_is_its_user_in_the_default_project(
    people: PeopleFixture, access: BrowserAccess
) -> None:
    accounts = Authenticator(DictApiKeyStore(), PEPPER)
    rights = {}
    for role in Role:
        session = (await people.sign_up_member(access, role)).session
        principal = accounts.principal_of(session)
        assert (principal.key_id, principal.tenant, principal.project, principal.user) == (
            "",
            ORGANISATION,
            f"proj_{ORGANISATION}",
            session.user.id,
        )
        rights[role] = principal.scopes
    key = await accounts.create_api_key(ORGANISATION, "p", name="k")
    assert (await accounts.authenticate(key.text)).cache_salt == principal.cache_salt
    assert rights[Role.MEMBER] == PROJECT_SCOPES
    assert rights[Role.OWNER] == rights[Role.ADMIN] == PROJECT_SCOPES | ADMIN_SCOPES
    assert Scope.CHAT_COMPLETIONS not in rights[Role.VIEWER]


async def test_an_api_key_is_not_a_password(people: PeopleFixture, access: BrowserAccess) -> None:
    await people.sign_up_member(access, Role.MEMBER)
    with pytest.raises(InvalidCredentials):
        await access.sign_in.sign_in("member@example.org", generate().text, "10.0.0.1")
