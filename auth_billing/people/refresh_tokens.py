"""Makes and parses one-use refresh tokens; a used one seals its successor, for clients that send it again.

A token is `<session id>.<256 random bits>`, and is stored as a digest. When it is used, its successor is stored sealed
with the used token. For a few seconds, a client that still sends the used one (a second tab, a browser whose response
was lost) gets the same successor. The seal can't be opened without the used token, not even with access to the store.
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
    """A refresh token, parsed or newly made."""

    session: str
    secret: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The refresh token as the browser's cookie has it."""
        return f"{self.session}.{base64.urlsafe_b64encode(self.secret).rstrip(b'=').decode()}"

    @property
    def digest(self) -> bytes:
        """SHA-256 of the refresh token's secret, the stored form; a fast hash suffices for 256 random bits."""
        return hashlib.sha256(self.secret).digest()

    def seal(self, successor: RefreshToken) -> bytes:
        """Return the refresh token that replaces this one, encrypted with this token's secret.

        The secret is a one-time pad: a token has one successor.
        """
        return self._padded(successor.secret)

    def unseal(self, sealed: bytes) -> RefreshToken:
        """Decrypt the refresh token that replaced this one from what `seal` returned; garbage if another sealed it."""
        return RefreshToken(self.session, self._padded(sealed))

    def _padded(self, text: bytes) -> bytes:
        pad = hmac.digest(self.secret, b"successor", hashlib.sha256)
        return bytes(a ^ b for a, b in zip(text, pad, strict=True))


def new_token(session: str) -> RefreshToken:
    """Return a new random refresh token of the browser session with this id; nothing is stored."""
    return RefreshToken(session, secrets.token_bytes(BYTES))


def parse(text: str) -> RefreshToken:
    """Parse the refresh token in a cookie's text, without checking in the store whether it is valid.

    Raises:
        InvalidSession: the text is not a refresh token.
    """
    session, _, secret = text.partition(".")
    if len(text) > MAX_LENGTH or not text.isascii() or not session:
        raise InvalidSession("malformed refresh token")
    try:
        raw = base64.b64decode(secret + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidSession("malformed refresh token") from error
    if len(raw) != BYTES:
        raise InvalidSession("malformed refresh token")
    return RefreshToken(session, raw)
