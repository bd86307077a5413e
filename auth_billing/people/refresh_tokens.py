"""Refresh tokens: `<session id>.<256 random bits>`, each good for one use, stored as a digest. Knows no store.

When one is used, its successor is stored sealed by it: for some seconds whoever still has the old one (a second tab, a
browser whose answer got lost) is given the same successor. Nobody else can open the seal, the store neither.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from auth_billing.errors import InvalidSession

BYTES = 32
MAX_LENGTH = 128


@dataclass(frozen=True)
class RefreshToken:
    """A token, from a browser or for one."""

    session: str
    secret: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """As the browser has it."""
        return f"{self.session}.{base64.urlsafe_b64encode(self.secret).rstrip(b'=').decode()}"

    @property
    def digest(self) -> bytes:
        """What is stored of it: SHA-256, which is right for 256 random bits."""
        return hashlib.sha256(self.secret).digest()

    def seal(self, successor: RefreshToken) -> bytes:
        """The successor, for whoever has this one. (One pad for one message: a token has one successor.)"""
        return self._padded(successor.secret)

    def unseal(self, sealed: bytes) -> RefreshToken:
        """The successor that was sealed; nonsense if it was sealed by another one."""
        return RefreshToken(self.session, self._padded(sealed))

    def _padded(self, text: bytes) -> bytes:
        pad = hmac.digest(self.secret, b"successor", hashlib.sha256)
        return bytes(a ^ b for a, b in zip(text, pad, strict=True))


def new_token(session: str) -> RefreshToken:
    """A new token of a session."""
    return RefreshToken(session, secrets.token_bytes(BYTES))


def parse(text: str) -> RefreshToken:
    """Read a token.

    Raises:
        InvalidSession: it can't be one.
    """
    session, _, secret = text.partition(".")
    if len(text) > MAX_LENGTH or not text.isascii() or not session:
        raise InvalidSession("no refresh token")
    try:
        raw = base64.b64decode(secret + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidSession("no refresh token") from error
    if len(raw) != BYTES:
        raise InvalidSession("no refresh token")
    return RefreshToken(session, raw)
