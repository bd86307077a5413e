"""The installation's secret that API keys are hashed with: made at the first start, kept in a file of the owner's.

Without it every key of the installation is worthless, so it is to be backed up, apart from the store. Processes on
several machines are given the same one by their settings.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

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
    try:
        if not path.exists():
            _create(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise StartupError(f"{path} can be read by others: chmod 600 it, or delete it (which voids all API keys)")
        return _checked(path.read_text().strip(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"can't use {path}: {error}") from error


def _create(path: Path) -> None:
    """Write it whole under another name, then link: nobody ever reads half of it, and the first one wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{FILE_NAME}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first: its pepper is the pepper
    finally:
        draft.unlink(missing_ok=True)


def _checked(text: str, source: str) -> bytes:
    if len(text.encode()) < MINIMUM_BYTES:
        raise StartupError(f"the pepper in {source} is shorter than {MINIMUM_BYTES} bytes")
    return text.encode()
