"""Sign-in transactions: bound to the browser's cookie, unforgeable, ten minutes long."""

from __future__ import annotations

import pytest

from auth_billing.people.oidc.transactions import LIFETIME, MAX_COOKIE, Transactions
from tests.fakes.accounts import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000_000.0)


@pytest.fixture
def transactions(clock: FakeClock) -> Transactions:
    return Transactions(b"p" * 32, clock)


def test_a_cookie_gives_its_transaction_back_for_ten_minutes(transactions: Transactions, clock: FakeClock) -> None:
    begun = transactions.begin("/c/conv-1", "sess-1")
    assert len(begun.cookie) <= MAX_COOKIE
    assert len({begun.state, begun.nonce, begun.verifier, transactions.begin("/").state}) == 4
    clock.now += LIFETIME - 1
    assert transactions.read(begun.cookie, begun.state) == begun
    clock.now += 1
    assert transactions.read(begun.cookie, begun.state) is None


def test_a_forged_cookie_or_another_state_is_refused(transactions: Transactions, clock: FakeClock) -> None:
    begun, other = transactions.begin("/", "sess-1"), transactions.begin("/")
    foreign = Transactions(b"q" * 32, clock).begin("/")
    forged = [
        (begun.cookie, other.state),
        (begun.cookie, ""),
        (begun.cookie, "é"),
        (begun.cookie.replace("sess-1", "sess-2"), begun.state),
        (begun.cookie.replace(str(int(begun.expires)), str(int(begun.expires) + 1)), begun.state),
        (foreign.cookie, foreign.state),
        ("", ""),
        ("....", ""),
        ("é" * 10, begun.state),
        ("a" * 100_000, begun.state),
    ]
    assert [transactions.read(cookie, state) for cookie, state in forged] == [None] * len(forged)


@pytest.mark.parametrize(
    "place", ["", "x", "//evil.example", "/\\evil.example", "/a?b", "/a#b", "/\n/evil", "/" + "a" * 300]
)
def test_only_plain_paths_of_this_site_are_returned_to(transactions: Transactions, place: str) -> None:
    assert transactions.begin(place).return_to == "/"
