"""Issues and reads challenges: signed tokens that prove a right password for five minutes, until the second factor.

A challenge is a JWT of its own audience and key, so that it is no access token, nor the other way round. It is bound to
the user's version: a changed password, and sign-out everywhere, void it.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import jwt

from auth_billing.errors import InvalidSession

AUDIENCE = "headrace-second-factor"
SECONDS_VALID = 300
MAX_LENGTH = 2048
ALGORITHM = "HS256"


@dataclass(frozen=True)
class Challenge:
    """A sign-in whose password was right, and that waits for the second factor."""

    user: str
    version: int
    """The user's version when the password was given."""
    organisation: str
    invitation: str = field(default="", repr=False)
    """Token of the invitation that the user accepts by signing in; empty: none."""


class Challenges:
    """Issues and reads challenges.

    Args:
        pepper: the installation's secret, from which the signing key is derived.
        clock: Unix seconds.
    """

    def __init__(self, pepper: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = hmac.digest(pepper, b"second-factor:challenges", hashlib.sha256)
        self._clock = clock

    def issue(self, challenge: Challenge) -> str:
        """Return a signed token of the challenge of a sign-in that has the password and lacks the second factor."""
        payload = {"aud": AUDIENCE, "exp": int(self._clock()) + SECONDS_VALID, "challenge": asdict(challenge)}
        return jwt.encode(payload, self._key, ALGORITHM)

    def read(self, token: str) -> Challenge:
        """Verify the signature and lifetime of a challenge token, and return the sign-in that it describes.

        Raises:
            InvalidSession: the token is malformed, expired, or not a challenge of this installation.
        """
        if len(token) > MAX_LENGTH:
            raise InvalidSession("challenge too long")
        options = {"require": ["aud", "exp"], "strict_aud": True, "verify_exp": False}
        try:
            payload = jwt.decode(token, self._key, [ALGORITHM], options=options, audience=AUDIENCE)  # type: ignore[arg-type]
        except (jwt.InvalidTokenError, ValueError, OverflowError) as error:
            raise InvalidSession(f"invalid challenge: {type(error).__name__}") from error
        if payload["exp"] <= self._clock():
            raise InvalidSession("the challenge has expired")
        return Challenge(**payload["challenge"])
