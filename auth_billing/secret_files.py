"""Reads the installation's secrets from private files, which the first start creates; secrets never change afterwards.

Processes that start concurrently get the same secret.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from runtime.lifecycle import StartupError


def read_or_make(path: Path, make: Callable[[], str], what_is_lost: str) -> str:
    """Return the text of the secret file at `path`; create a missing file, private to its owner, from `make`'s result.

    Args:
        what_is_lost: verb phrase for the error message: what deleting the file does.

    Raises:
        StartupError: other users can read the file, or it can't be read or created.
    """
    try:
        if not path.exists():
            _create(path, make())
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise StartupError(f"{path} can be read by others: chmod 600 it, or delete it (which {what_is_lost})")
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"can't use {path}: {error}") from error


def _create(path: Path, text: str) -> None:
    """Write a draft, then link it: no process reads half a file, and the first one wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first: its secret is the secret
    finally:
        draft.unlink(missing_ok=True)
