"""Identities in MongoDB and in memory: one user each, and each state of a sign-in is used once."""

from __future__ import annotations

import asyncio
import time

from auth_billing.people.oidc.identity_records import Identity, identity_id
from tests.auth_billing.store.conftest import PeopleStores

ISSUER = "https://issuer.example"
IDENTITY = Identity(identity_id(ISSUER, "alice"), ISSUER, "alice", "user-1", 1.0)


async def test_an_identity_belongs_to_the_user_that_was_first(people: PeopleStores) -> None:
    others = [Identity(IDENTITY.id, ISSUER, "alice", f"user-{number}", 1.0) for number in range(6)]
    added = await asyncio.gather(*map(people.identities.add, others))
    assert added.count(True) == 1
    assert await people.identities.find(IDENTITY.id) == others[added.index(True)]
    assert await people.identities.find(identity_id(ISSUER, "bob")) is None


async def test_all_identities_of_a_user_are_removed(people: PeopleStores) -> None:
    for subject, user in (("alice", "user-1"), ("alice at home", "user-1"), ("bob", "user-2")):
        await people.identities.add(Identity(identity_id(ISSUER, subject), ISSUER, subject, user, 1.0))
    await people.identities.remove_all("user-1")
    found = [await people.identities.find(identity_id(ISSUER, each)) for each in ("alice", "alice at home", "bob")]
    assert [each and each.user for each in found] == [None, None, "user-2"]


async def test_the_identities_of_a_user_are_listed_and_removed(people: PeopleStores) -> None:
    subjects = (("later", "user-1", 2.0), ("alice", "user-1", 1.0), ("bob", "user-2", 1.0))
    later, alice, bob = (Identity(identity_id(ISSUER, name), ISSUER, name, user, at) for name, user, at in subjects)
    for each in (later, alice, bob):
        await people.identities.add(each)
    assert await people.identities.of_user("user-1") == [alice, later]
    assert not await people.identities.remove(bob.id, "user-1")
    assert await people.identities.remove(alice.id, "user-1")
    assert not await people.identities.remove(alice.id, "user-1")
    assert [await people.identities.of_user(each) for each in ("user-1", "user-2")] == [[later], [bob]]


async def test_a_state_is_used_once(people: PeopleStores) -> None:
    used = await asyncio.gather(*(people.identities.use_state("state", time.time() + 600) for _ in range(6)))
    assert used.count(True) == 1


def test_no_two_identities_have_the_same_id() -> None:
    assert identity_id("https://a", "bc") != identity_id("https://ab", "c")
