"""Sign-in: address and password only, without revealing which accounts exist."""

from __future__ import annotations

import argon2
import pytest

from auth_billing.access.roles import Role
from auth_billing.access.scopes import ADMIN_SCOPES, PROJECT_SCOPES, Scope
from auth_billing.authenticator import Authenticator
from auth_billing.errors import (
    InvalidCredentials,
    UnacceptableValue,
)
from auth_billing.keys.key_format import generate
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.passwords import Passwords
from tests.auth_billing.people.test_passwords import Counting
from tests.fakes.accounts import DictApiKeyStore
from tests.fakes.sessions import CHEAP, ORGANISATION, PASSWORD, PEPPER, PeopleFixture


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


async def test_a_sessions_principal_is_its_user_in_the_default_project(
    people: PeopleFixture, access: BrowserAccess
) -> None:
    accounts = Authenticator(DictApiKeyStore(), PEPPER)
    rights = {}
    for role in Role:
        session = (await people.sign_up_member(access, role)).session
        principal = await accounts.principal_of(session)
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
