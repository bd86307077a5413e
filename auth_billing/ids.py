"""Generates ids of stored records: a prefix that names the kind of record, and random characters."""

from __future__ import annotations

import secrets
import string

LENGTH = 24
ALPHABET = string.ascii_letters + string.digits


def new_id(prefix: str) -> str:
    """Return a new random record id: `prefix` (e.g. `proj_`), then 24 letters and digits (143 random bits)."""
    return prefix + "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
