"""The installation's secret that API keys are hashed with: made at the first start, kept in a file of the owner's.

Without it every key of the installation is worthless, so it is to be backed up, apart from the store. Processes on
several machines are given the same one by their settings.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from auth_billing.keys.secret_files import read_or_make
from infra.runtime.lifecycle import StartupError

FILE_NAME = "api-key-pepper"
MINIMUM_BYTES = 32


def load_pepper(home: Path, given: str = "") -> bytes:
    """The pepper: `given` by the settings, else from `home/secrets/`, made there at the first call.

    Several processes may call this at once and get the same one.

    Raises:
        StartupError: it is too short, somebody else can read the file, or the file can't be read or made.
    """
    if given:
        return _checked(given, "HEADRACE_API_KEY_PEPPER")
    path = home / "secrets" / FILE_NAME
    return _checked(read_or_make(path, lambda: secrets.token_urlsafe(48), "voids all API keys"), str(path))


def control_secret(pepper: bytes) -> str:
    """The installation's secret for control messages. Workers are given it: nobody finds the pepper by it."""
    return hmac.new(pepper, b"control:messages", hashlib.sha256).hexdigest()  # the colon is in no key's secret


def _checked(text: str, source: str) -> bytes:
    if len(text.encode()) < MINIMUM_BYTES:
        raise StartupError(f"the pepper in {source} is shorter than {MINIMUM_BYTES} bytes")
    return text.encode()
