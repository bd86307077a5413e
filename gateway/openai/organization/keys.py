"""API keys. Source: `ProjectApiKey`, `AdminApiKey`, `ProjectServiceAccount` in OpenAI's specification."""

from __future__ import annotations

PREFIX = "key_"


def shown_key(key_id: str) -> str:
    """A key's id as clients see it; "" (nobody's key) stays."""
    return PREFIX + key_id if key_id else ""


def key_id_of(shown: str) -> str:
    """The id that is shown so."""
    return shown.removeprefix(PREFIX)
