"""Second factors in MongoDB and in memory: confirmed once, each code accepted once."""

from __future__ import annotations

import asyncio

from auth_billing.people.second_factor import SecondFactorRecord
from tests.auth_billing.store.conftest import PeopleStores

NONCE, OTHER = b"0" * 16, b"1" * 16
CODES = (b"a" * 32, b"b" * 32)


async def test_a_confirmed_factor_is_not_replaced(people: PeopleStores) -> None:
    factors = people.factors
    assert await factors.begin("ada", OTHER)
    assert await factors.begin("ada", NONCE)
    assert await factors.find("ada") == SecondFactorRecord("ada", NONCE)
    assert not await factors.confirm("ada", OTHER, 5.0, 7, CODES)
    confirmed = await asyncio.gather(*(factors.confirm("ada", NONCE, 5.0, 7, CODES) for _ in range(4)))
    assert confirmed.count(True) == 1
    assert not await factors.begin("ada", OTHER)
    await factors.begin("bob", OTHER)
    assert await factors.confirmed(["ada", "bob", "eve"]) == {"ada"}
    assert await factors.find("ada") == SecondFactorRecord("ada", NONCE, 5.0, 7, CODES)
    assert [await factors.remove("ada") for _ in range(2)] == [True, False]
    assert await factors.find("ada") is None


async def test_each_step_and_each_recovery_code_counts_once(people: PeopleStores) -> None:
    factors = people.factors
    await factors.begin("ada", NONCE)
    assert not await factors.accept_step("ada", NONCE, 9)  # not confirmed
    await factors.confirm("ada", NONCE, 5.0, 7, CODES)
    assert not await factors.accept_step("ada", NONCE, 7)
    assert not await factors.accept_step("ada", OTHER, 9)
    accepted = await asyncio.gather(*(factors.accept_step("ada", NONCE, 9) for _ in range(4)))
    assert accepted.count(True) == 1
    assert not await factors.accept_step("ada", NONCE, 8)
    used = await asyncio.gather(*(factors.use_recovery_code("ada", CODES[0]) for _ in range(4)))
    assert used.count(True) == 1
    assert await factors.find("ada") == SecondFactorRecord("ada", NONCE, 5.0, 9, CODES[1:])
    assert not await factors.use_recovery_code("bob", CODES[1])
