"""Challenges: signed, short-lived, and nothing but challenges."""

from __future__ import annotations

import jwt
import pytest

from auth_billing.errors import InvalidSession
from auth_billing.people.access_tokens import AccessClaims, AccessTokens
from auth_billing.people.second_factor_challenges import SECONDS_VALID, Challenge, Challenges
from tests.fakes.accounts import FakeClock
from tests.fakes.sessions import PEPPER, SIGNING_KEY

CHALLENGE = Challenge("user-ada", 3, "org-acme", "t" * 43)


def test_a_challenge_is_read_until_it_expires() -> None:
    clock = FakeClock(1e9)
    challenges = Challenges(PEPPER, clock)
    token = challenges.issue(CHALLENGE)
    clock.now += SECONDS_VALID - 1
    assert challenges.read(token) == CHALLENGE
    clock.now += 1
    with pytest.raises(InvalidSession):
        challenges.read(token)


def test_other_tokens_are_no_challenges_and_challenges_no_other_tokens() -> None:
    challenges, tokens = Challenges(PEPPER), AccessTokens([SIGNING_KEY])
    token = challenges.issue(CHALLENGE)
    with pytest.raises(InvalidSession):
        tokens.read(token)
    unsigned = jwt.encode(jwt.decode(token, options={"verify_signature": False}), "", "none")
    forged = Challenges(b"q" * 32).issue(CHALLENGE)
    for other in (tokens.issue(AccessClaims("sess-1", "user-ada", 3)), unsigned, forged, "", "x.y.z", "x" * 10_000):
        with pytest.raises(InvalidSession):
            challenges.read(other)
