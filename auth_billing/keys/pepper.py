"""Loads the pepper, the secret that hashes API keys and tokens, and derives the workers' control-message secret.

The first start creates the pepper in a private file. Back it up, apart from the store: without it every API key of the
installation is invalid. Processes on several machines must have the same one in their settings.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from auth_billing.secret_files import read_or_make
from runtime.lifecycle import StartupError

FILE_NAME = "api-key-pepper"
MINIMUM_BYTES = 32


def load_pepper(home: Path, given: str = "") -> bytes:
    """Return the pepper given by the settings (`given`), else read it from `home/secrets/`, creating it at first use.

    Concurrent calls of several processes return the same pepper.

    Raises:
        StartupError: the pepper is too short, or its file is readable by other users or can't be read or created.
    """
    if given:
        return _checked(given, "HEADRACE_API_KEY_PEPPER")
    path = home / "secrets" / FILE_NAME
    return _checked(read_or_make(path, lambda: secrets.token_urlsafe(48), "voids all API keys"), str(path))


def control_secret(pepper: bytes) -> str:
    """Derive from the pepper the secret that signs control messages between gateways and workers.

    Workers get this secret; the pepper can't be computed from it.
    """
    return hmac.new(pepper, b"control:messages", hashlib.sha256).hexdigest()  # the colon is in no key's secret


def _checked(text: str, source: str) -> bytes:
    if len(text.encode()) < MINIMUM_BYTES:
        raise StartupError(f"the pepper in {source} is shorter than {MINIMUM_BYTES} bytes")
    return text.encode()
