"""Writes `.env`, the settings and random secrets of `docker compose`, from `.env.example`; run by `make env`.

Must use the standard library only.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from pathlib import Path

from infra.install.step import ROOT

SIGNING_KEYS = "HEADRACE_SESSION_SIGNING_KEYS"
"""The variable whose value has the form ID:SECRET."""


def fill_in(example: str) -> str:
    """Return the text of an environment file with a random secret for each variable that is empty in `example`."""

    def line(match: re.Match[str]) -> str:
        prefix = "1:" if match[1] == SIGNING_KEYS else ""
        return f"{match[1]}={prefix}{secrets.token_urlsafe(32)}"

    return re.sub(r"^([A-Z_]+)=$", line, example, flags=re.MULTILINE)


def write(target: Path) -> bool:
    """Write `.env.example` with random secrets filled in to `target` (mode 0600).

    Return false, unchanged, if it exists.
    """
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w") as file:
        file.write(fill_in((ROOT / ".env.example").read_text()))
    return True


def main() -> int:
    """Run `python3 -m infra.install.environment_file`: write `.env` unless it exists, and return the exit status."""
    written = write(ROOT / ".env")
    sys.stdout.write("wrote .env\n" if written else ".env exists: not changed\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
