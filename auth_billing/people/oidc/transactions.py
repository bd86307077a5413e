"""Binds a sign-in at the OpenID Connect provider to the browser that began it, for ten minutes, by a signed cookie.

The browser's cookie is signed. `state`, `nonce` and PKCE's verifier are derived from the cookie with the installation's
secret, so that no record is stored before the provider's answer, and a visitor who begins sign-ins fills no store.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

LIFETIME = 600
"""Seconds that a user may take to sign in at the provider."""
MAX_COOKIE = 1024
_RETURN_TO = re.compile(r"/(?![/\\])[A-Za-z0-9_./-]{0,200}")


@dataclass(frozen=True)
class Transaction:
    """One sign-in at the provider, as its browser's cookie describes it."""

    cookie: str
    state: str
    nonce: str
    verifier: str
    return_to: str
    """Path of this site that the browser is sent to afterwards."""
    session: str
    """Id of the session whose user the identity is connected with; empty: a sign-in."""
    expires: float


class Transactions:
    """Begins transactions and reads them from their cookies.

    Args:
        secret: the installation's secret.
        clock: Unix seconds.
    """

    def __init__(self, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = hmac.digest(secret, b"oidc-transaction", hashlib.sha256)
        self._clock = clock

    def begin(self, return_to: str, session: str = "") -> Transaction:
        """Return a new transaction for a sign-in at the provider, to be kept in the browser's cookie.

        A `return_to` that is not a plain path of this site is replaced by `/`. `session`: id of the session whose user
        connects an identity; empty: a sign-in.
        """
        path = return_to if _RETURN_TO.fullmatch(return_to) else "/"
        encoded = base64.urlsafe_b64encode(path.encode()).decode()
        text = ".".join((str(int(self._clock()) + LIFETIME), secrets.token_urlsafe(32), session, encoded))
        return self._transaction(f"{text}.{self._derived('cookie', text)}")

    def read(self, cookie: str, state: str) -> Transaction | None:
        """Return the sign-in transaction in a cookie; `None` if forged, expired or not of the answer's `state`."""
        text, _, signature = cookie.rpartition(".")
        if len(cookie) > MAX_COOKIE or not cookie.isascii() or not state.isascii():
            return None
        if not hmac.compare_digest(signature, self._derived("cookie", text)):
            return None
        transaction = self._transaction(cookie)
        current = self._clock() < transaction.expires and hmac.compare_digest(state, transaction.state)
        return transaction if current else None

    def _transaction(self, cookie: str) -> Transaction:
        expires, _random, session, encoded, _signature = cookie.split(".")
        state, nonce, verifier = (self._derived(purpose, cookie) for purpose in ("state", "nonce", "verifier"))
        return_to = base64.urlsafe_b64decode(encoded).decode()
        return Transaction(cookie, state, nonce, verifier, return_to, session, float(expires))

    def _derived(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()
