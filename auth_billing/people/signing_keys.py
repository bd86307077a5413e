"""Loads the keys that sign browsers' access tokens; the first start creates one, in a file beside the pepper.

The format is one or two `id:secret` entries: the first key signs, both verify. To rotate without signing users out: add
the new key second, restart every gateway, put it first, restart again, then remove the old one. A leaked key lets an
attacker impersonate any browser user; it protects nothing else.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from auth_billing.secret_files import read_or_make
from runtime.lifecycle import StartupError

FILE_NAME = "session-signing-keys"
ALGORITHM = "HS256"
MAX_KEYS = 2
_KEY = re.compile(r"([A-Za-z0-9-]{1,32}):([A-Za-z0-9_+/=-]{32,512})")


@dataclass(frozen=True)
class SigningKey:
    """A signing key with the one algorithm that it is used with."""

    id: str
    algorithm: str
    key: bytes = field(repr=False)


def load_signing_keys(home: Path, given: str = "") -> tuple[SigningKey, ...]:
    """Return the keys given by the settings (`given`), else those of `home/secrets/`, where the first call creates one.

    Raises:
        StartupError: the keys are malformed or too short, or their file can't be used.
    """
    if given:
        return _read(given, "HEADRACE_SESSION_SIGNING_KEYS")
    path = home / "secrets" / FILE_NAME
    return _read(read_or_make(path, _new, "signs all users out of the chat"), str(path))


def _new() -> str:
    return f"{secrets.token_hex(4)}:{secrets.token_urlsafe(48)}"


def _read(text: str, source: str) -> tuple[SigningKey, ...]:
    matches = [_KEY.fullmatch(each) for each in re.split(r"[\s,]+", text)]
    keys = [SigningKey(match[1], ALGORITHM, match[2].encode()) for match in matches if match]
    if len(keys) < len(matches) or len(keys) > MAX_KEYS or len({key.id for key in keys}) < len(keys):
        raise StartupError(
            f"{source} must hold one or two different keys, each written ID:SECRET with a secret of 32 to 512 "
            "letters, digits and -_+/="
        )
    return tuple(keys)
