"""Reads and writes secrets in the home directory: broker and store passwords, and the development account's API key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from infra.home.home import Home


def write_secret(path: Path, text: str) -> None:
    """Write the secret `text` to a file atomically, with mode 0600, so that only this user can read it."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)


def password_file(home: Home, user: str) -> Path:
    """Return the path of the file with the password of the RabbitMQ user `user`."""
    return home.secrets / f"rabbitmq-{user}"


def broker_passwords(home: Home, users: Iterable[str]) -> dict[str, str]:
    """Return the passwords of these RabbitMQ users, by name; missing ones are generated and stored in `home`."""
    return {user: read_password(password_file(home, user)) for user in users}


def read_password(path: Path) -> str:
    """Return the password in the file `path`; if the file is missing, generate and store one."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(path, secrets.token_urlsafe(24) + "\n")
    return path.read_text().strip()


def write_client_env(home: Home, base_url: str, api_key: str) -> None:
    """Write the home's `client.env`, environment variables with base URL and API key that OpenAI clients read.

    Load it by `set -a; . .headrace/client.env`.
    """
    write_secret(home.client_env, f"OPENAI_BASE_URL={base_url}\nOPENAI_API_KEY={api_key}\n")


def read_client_key(home: Home) -> str | None:
    """Return the API key in the home's `client.env`; `None` if there is none."""
    return _client_env(home).get("OPENAI_API_KEY") or None


def read_client_url(home: Home) -> str:
    """Return the API's base URL in the home's `client.env`; empty if there is none."""
    return _client_env(home).get("OPENAI_BASE_URL", "")


def _client_env(home: Home) -> dict[str, str]:
    if not home.client_env.exists():
        return {}
    return dict(line.split("=", 1) for line in home.client_env.read_text().splitlines() if "=" in line)
