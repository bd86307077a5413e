"""Issues and validates access tokens of browser sessions: JWTs valid for 15 minutes, by the rules of RFC 8725.

The verification key and its algorithm are looked up by `kid` among the installation's own keys. No other header field
is used: `jku`, `jwk` and `x5u` could name an attacker's key, and pyjwt refuses `crit`. Whether the session is still
active is checked in `sessions.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from auth_billing.errors import InvalidSession
from auth_billing.ids import new_id
from auth_billing.people.signing_keys import SigningKey

ISSUER = "headrace"
AUDIENCE = "headrace-web"
USE = "access"
SECONDS_VALID = 900
LEEWAY = 30
MAX_LENGTH = 2048
REQUIRED = ["exp", "iat", "nbf", "aud", "iss", "sub", "jti"]


@dataclass(frozen=True)
class AccessClaims:
    """The session and user that an access token was issued for."""

    session: str
    user: str
    version: int
    """The user's version when the session was opened."""


class AccessTokens:
    """Issues and validates the signed access tokens of browser sessions.

    Args:
        keys: the first one signs, each of them verifies.
        clock: Unix seconds.
    """

    def __init__(self, keys: Sequence[SigningKey], clock: Callable[[], float] = time.time) -> None:
        self._signer = keys[0]
        self._keys = {key.id: key for key in keys}
        self._clock = clock
        self._jwt = jwt.PyJWT(options={"enforce_minimum_key_length": True})

    def issue(self, claims: AccessClaims) -> str:
        """Return a new signed access token for a session and its user."""
        now = int(self._clock())
        payload = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": claims.user,
            "iat": now,
            "nbf": now,
            "exp": now + SECONDS_VALID,
            "jti": new_id("jwt-"),
            "token_use": USE,
            "sid": claims.session,
            "ver": claims.version,
        }
        headers = {"kid": self._signer.id}
        return self._jwt.encode(payload, self._signer.key, self._signer.algorithm, headers=headers)

    def read(self, token: str) -> AccessClaims:
        """Verify an access token (signature, lifetime, audience) and return its claims; reads no store.

        Raises:
            InvalidSession: the token is malformed, expired, or not signed by one of the keys.
        """
        if len(token) > MAX_LENGTH:
            raise InvalidSession("token too long")
        try:
            key = self._keys.get(jwt.get_unverified_header(token).get("kid", ""))
            if key is None:
                raise InvalidSession("unknown signing key")
            payload = self._jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                audience=AUDIENCE,
                issuer=ISSUER,
                leeway=LEEWAY,
                options={"require": REQUIRED, "strict_aud": True},
            )
        except (jwt.InvalidTokenError, TypeError, ValueError, OverflowError) as error:
            raise InvalidSession(f"invalid token: {type(error).__name__}") from error
        return self._checked(payload)

    def _checked(self, payload: dict[str, Any]) -> AccessClaims:
        """Check what pyjwt does not: exact integer types, the lifetime, and `token_use`."""
        issued, expires, version = payload["iat"], payload["exp"], payload.get("ver")
        if type(issued) is not int or type(expires) is not int or type(version) is not int:
            raise InvalidSession("a numeric claim is not an integer")
        if not 0 < expires - issued <= SECONDS_VALID or issued > self._clock() + LEEWAY:
            raise InvalidSession("invalid lifetime")
        session, user = payload.get("sid"), payload["sub"]
        if payload.get("token_use") != USE or not isinstance(session, str) or not isinstance(user, str):
            raise InvalidSession("not an access token")
        return AccessClaims(session, user, version)
