"""Passwords: validation, hashing, bounded work, and equal cost for unknown users."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Literal

import argon2
import pytest

from auth_billing.errors import PasswordsBusy, UnacceptableValue
from auth_billing.people.passwords import MAX_LENGTH, Passwords, owasp_hasher
from tests.fakes.sessions import CHEAP, PASSWORD


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    made = Passwords(CHEAP)
    yield made
    made.close()


class Counting(argon2.PasswordHasher):
    """A hasher that counts its operations and can be made to block."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.checked: list[bytes] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        assert isinstance(password, bytes)
        self.checked.append(password)
        assert self.may_go_on.wait(20)
        return super().verify(hash, password)


async def test_a_password_is_verified_and_not_stored(passwords: Passwords) -> None:
    stored = await passwords.hash(PASSWORD)
    assert stored.startswith("$argon2id$")
    assert PASSWORD not in stored
    assert await passwords.verify(stored, PASSWORD)
    assert not await passwords.verify(stored, PASSWORD + "x")
    assert stored != await passwords.hash(PASSWORD)


def test_the_hash_parameters_are_owasps_minimum() -> None:
    assert owasp_hasher().hash("x").startswith("$argon2id$v=19$m=19456,t=2,p=1$")


async def test_passwords_are_compared_in_nfkc(passwords: Passwords) -> None:
    stored = await passwords.hash("Zażółć ﬁn ①2345")
    assert await passwords.verify(stored, "Zaz\u0307o\u0301łc\u0301 fin 12345")
    assert not await passwords.verify(stored, "Zazolc fin 12345")  # looks alike, is another


@pytest.mark.parametrize(
    "password",
    ["", "short", "x" * (MAX_LENGTH + 1), "x" * 1_000_000, "null\0null\0null", "line\nbreaks\n", "\ud800" * 20],
)
async def test_invalid_passwords_are_refused(passwords: Passwords, password: str) -> None:
    with pytest.raises(UnacceptableValue) as caught:
        await passwords.hash(password)
    assert caught.value.param == "password"


@pytest.mark.parametrize("wrong", ["", "x", "\0", "x" * MAX_LENGTH, "раssword12", "correct horse\0"])
async def test_a_wrong_password_does_not_raise(passwords: Passwords, wrong: str) -> None:
    assert not await passwords.verify(await passwords.hash(PASSWORD), wrong)


@pytest.mark.parametrize("long", ["x" * (MAX_LENGTH + 1), "x" * 1_000_000, "\ud800"])
async def test_too_long_a_password_is_not_hashed(long: str) -> None:
    hasher = Counting()
    assert not await Passwords(hasher).verify(None, long)
    assert hasher.checked == []


async def test_an_unknown_user_costs_the_same_work_and_never_matches() -> None:
    hasher = Counting()
    passwords = Passwords(hasher)
    stored = await passwords.hash(PASSWORD)
    assert not await passwords.verify(stored, "wrong password")
    assert not await passwords.verify(None, "wrong password")
    assert not await passwords.verify(None, "unknown user")  # the password of the dummy hash
    assert hasher.checked == [b"wrong password", b"wrong password", b"unknown user"]


@pytest.mark.parametrize("stored", ["", "$argon2id$broken", "plain", "$2b$12$abc"])
async def test_a_malformed_hash_matches_no_password(passwords: Passwords, stored: str) -> None:
    assert not await passwords.verify(stored or "x", PASSWORD)


async def test_a_weak_hash_is_replaced_and_a_strong_one_kept(passwords: Passwords) -> None:
    weak = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1, hash_len=16).hash("short")
    strong = await passwords.rehash(weak, "short")  # rules for new passwords do not apply
    assert strong != weak
    assert await passwords.verify(strong, "short")
    assert await passwords.rehash(strong, "short") == strong


async def test_excess_checks_are_refused_until_others_end() -> None:
    hasher = Counting()
    hasher.may_go_on.clear()
    passwords = Passwords(hasher, pending=4)
    checks = [asyncio.create_task(passwords.verify(None, "x" * 10)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(PasswordsBusy):
        await passwords.verify(None, "x" * 10)
    checks[0].cancel()  # its client has gone, its thread works on
    with pytest.raises(PasswordsBusy):
        await passwords.verify(None, "x" * 10)
    hasher.may_go_on.set()
    assert await asyncio.gather(*checks[1:]) == [False] * 3
    async with asyncio.timeout(20):
        while True:
            try:
                assert await asyncio.gather(*(passwords.verify(None, "x" * 10) for _ in range(4))) == [False] * 4
                break
            except PasswordsBusy:
                await asyncio.sleep(0.005)
