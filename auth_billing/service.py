"""The facade: all that gateway and chat may ask of accounts.

Knows no HTTP (no status codes, no FastAPI) and no MongoDB (that is `store/`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Principal:
    """Who is asking: the owner of a valid API key.

    `cache_salt` separates this tenant's prefix cache from every other's.
    """

    key_id: str
    tenant: str
    cache_salt: str
