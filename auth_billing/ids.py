"""Ids of what is stored: a prefix that says what it is, and random letters that nobody can guess."""

from __future__ import annotations

import secrets
import string

LENGTH = 24
_LETTERS = string.ascii_letters + string.digits


def new_id(prefix: str) -> str:
    """A new id, e.g. `proj_` and 24 letters and digits (143 random bits)."""
    return prefix + "".join(secrets.choice(_LETTERS) for _ in range(LENGTH))
