"""Secrets of the installation in files of the owner's: made at the first start, then always the same.

Knows not what a secret is for. Processes that start at once get the same one.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from infra.runtime.lifecycle import StartupError


def read_or_make(path: Path, make: Callable[[], str], what_is_lost: str) -> str:
    """The text in the file at `path`; if there is none, what `make` returns is put there first.

    Raises:
        StartupError: somebody else can read the file (`what_is_lost`: if it is deleted), or it can't be read or made.
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
    """Write it whole under another name, then link: nobody ever reads half of it, and the first one wins."""
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
