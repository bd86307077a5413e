"""API keys as text: how one is made, read and hashed. Knows no store and nobody's account.

`hr_live_<key id: 10 base62>_<secret: 43 base64url, 256 random bits>_<CRC-32 of all before it: 6 base62>`. The
checksum tells garbage from keys without asking the store, and lets secret scanners be sure (GitHub's token format has
the same two ideas). A fast hash is right for 256 random bits: they can't be enumerated.
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
"""For secret scanners of repositories and logs."""

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_KEY = re.compile(r"hr_live_([0-9A-Za-z]{10})_([0-9A-Za-z_\-]{43})_([0-9A-Za-z]{6})")


@dataclass(frozen=True)
class ApiKey:
    """A well-formed key: nothing is known yet of whether it was ever given to anybody."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The key as its owner has it."""
        body = f"{PREFIX}{self.key_id}_{self.secret}"
        return f"{body}_{_checksum(body)}"


def generate() -> ApiKey:
    """A new key from the operating system's random numbers."""
    key_id = "".join(secrets.choice(_BASE62) for _ in range(KEY_ID_LENGTH))
    return ApiKey(key_id, secrets.token_urlsafe(SECRET_BYTES))


def parse(text: str) -> ApiKey | None:
    """Read a key; `None` if it can't be one (its form or its checksum is wrong)."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    body, _, checksum = text.rpartition("_")
    return ApiKey(match[1], match[2]) if checksum == _checksum(body) else None


def digest(pepper: bytes, secret: str) -> bytes:
    """What is stored of a secret: HMAC-SHA256 under the installation's pepper, 32 bytes."""
    return hmac.digest(pepper, secret.encode(), hashlib.sha256)


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    digits = []
    for _ in range(CHECKSUM_LENGTH):
        value, remainder = divmod(value, len(_BASE62))
        digits.append(_BASE62[remainder])
    return "".join(reversed(digits))
