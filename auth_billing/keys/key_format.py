"""Generates, parses and hashes the texts of API keys.

`hr_live_<key id: 10 base62>_<secret: 43 base64url, 256 random bits>_<CRC-32 of all before it: 6 base62>`. The checksum
rejects malformed keys without a store lookup, and lets secret scanners avoid false positives (as GitHub's token format
does). A fast hash suffices for 256 random bits, which can't be enumerated.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field

PREFIX = "hr_live_"
KEY_ID_LENGTH = 10
CHECKSUM_LENGTH = 6
SECRET_BYTES = 32

SCANNING_PATTERN = r"\bhr_live_[0-9A-Za-z]{10}_[0-9A-Za-z_\-]{43}_[0-9A-Za-z]{6}\b"
"""Regular expression for secret scanners of repositories and logs."""

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_KEY = re.compile(r"hr_live_([0-9A-Za-z]{10})_([0-9A-Za-z_\-]{43})_([0-9A-Za-z]{6})")


@dataclass(frozen=True)
class ApiKey:
    """A well-formed API key, not yet checked against the store."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The API key as the client sends it in a request, its secret included."""
        body = f"{PREFIX}{self.key_id}_{self.secret}"
        return f"{body}_{_checksum(body)}"


def generate() -> ApiKey:
    """Return a new random API key, made with the operating system's random number generator; nothing is stored."""
    key_id = "".join(secrets.choice(_BASE62) for _ in range(KEY_ID_LENGTH))
    return ApiKey(key_id, secrets.token_urlsafe(SECRET_BYTES))


def parse(text: str) -> ApiKey | None:
    """Parse the text of an API key without reading the store; return `None` if its form or its checksum is wrong."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    body, _, checksum = text.rpartition("_")
    return ApiKey(match[1], match[2]) if checksum == _checksum(body) else None


def digest(pepper: bytes, secret: str) -> bytes:
    """Return an API key's secret as it is stored: its HMAC-SHA256 under the installation's pepper, 32 bytes."""
    return hmac.digest(pepper, secret.encode(), hashlib.sha256)


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    digits = []
    for _ in range(CHECKSUM_LENGTH):
        value, remainder = divmod(value, len(_BASE62))
        digits.append(_BASE62[remainder])
    return "".join(reversed(digits))
