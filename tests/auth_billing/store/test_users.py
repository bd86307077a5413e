"""Users in MongoDB and in memory: unique addresses, conditional password changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from auth_billing.people.people_records import User
from tests.auth_billing.store.conftest import PeopleStores

ADA = User("user-ada", "Ada@Example.org", "Ada", 1.5, "$argon2id$old")


async def test_an_email_address_is_unique_in_its_folded_form(people: PeopleStores) -> None:
    assert await people.users.add(ADA)
    for spelling in ("ada@example.org", "ADA@EXAMPLE.ORG", "ａｄａ@example.org"):
        assert not await people.users.add(replace(ADA, id="user-2", email=spelling))
        assert await people.users.find_by_email(spelling) == ADA
    assert await people.users.find("user-2") is None
    assert await people.users.find_all(["user-ada", "user-2"]) == [ADA]


async def test_one_of_many_concurrent_sign_ups_wins(people: PeopleStores) -> None:
    added = await asyncio.gather(*(people.users.add(replace(ADA, id=f"user-{number}")) for number in range(8)))
    assert added.count(True) == 1


async def test_a_password_change_needs_the_current_hash(people: PeopleStores) -> None:
    await people.users.add(ADA)
    assert await people.users.rehash("user-ada", "$argon2id$old", "$argon2id$stronger")
    assert not await people.users.rehash("user-ada", "$argon2id$old", "$argon2id$other")
    assert await people.users.change_password("user-ada", "$argon2id$old", "x") is None
    changed = await people.users.change_password("user-ada", "$argon2id$stronger", "$argon2id$new")
    assert changed == replace(ADA, password="$argon2id$new", version=1)
    await people.users.end_sessions("user-ada")
    assert await people.users.find("user-ada") == replace(ADA, password="$argon2id$new", version=2)


async def test_a_reset_needs_the_current_version(people: PeopleStores) -> None:
    await people.users.add(ADA)
    reset = await asyncio.gather(*(people.users.reset_password("user-ada", 0, f"$argon2id${n}") for n in range(8)))
    changed = [user for user in reset if user is not None]
    assert len(changed) == 1
    assert changed[0].version == 1
    assert await people.users.find("user-ada") == changed[0]
    assert await people.users.reset_password("user-x", 0, "$argon2id$new") is None
