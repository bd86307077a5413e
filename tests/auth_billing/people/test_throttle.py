"""The throttle of sign-ins: ten attempts a minute per account and per network address, shared by gateways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import (
    InvalidCredentials,
    TooManySignIns,
)
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.passwords import Passwords
from auth_billing.people.throttle import PER_MINUTE, network_of
from tests.auth_billing.people.test_passwords import Counting
from tests.fakes.sessions import PASSWORD, PeopleFixture


def addresses() -> Iterator[str]:
    return (f"10.{number // 250}.{number % 250}.1" for number in range(10**6))


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
        if isinstance(caught.value, TooManySignIns):
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
