"""Defines the scopes: the rights that API keys and sessions have. Each route of the gateway requires one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from auth_billing.access.roles import Role


class Scope(StrEnum):
    """A right of an API key or a session."""

    CHAT_COMPLETIONS = "chat.completions"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    IMAGES = "images"
    SCORES = "scores"
    """Score, rerank and moderate texts."""
    FILES = "files"
    """Upload, read and delete the project's files."""
    BATCHES = "batches"
    """Create, read and cancel the project's batches; their lines need the scopes of what they request."""
    MODELS_READ = "models.read"
    """List models, retrieve one, and tokenise with the tokenizer of one."""
    ORGANIZATION_READ = "organization.read"
    """Read usage, costs and all other resources of `/v1/organization`."""
    ORGANIZATION_ADMIN = "organization.admin"
    """Change the organisation: its projects, keys, users, limits and budgets."""


PROJECT_SCOPES = frozenset(
    {
        Scope.CHAT_COMPLETIONS,
        Scope.COMPLETIONS,
        Scope.EMBEDDINGS,
        Scope.IMAGES,
        Scope.SCORES,
        Scope.FILES,
        Scope.BATCHES,
        Scope.MODELS_READ,
    }
)
"""All scopes that a project's key may have; also its default."""

ADMIN_SCOPES = frozenset({Scope.ORGANIZATION_READ, Scope.ORGANIZATION_ADMIN})
"""All scopes that an organisation's admin key may have; also its default."""


VIEWER_SCOPES = frozenset({Scope.MODELS_READ, Scope.ORGANIZATION_READ})


_BY_NAME = {scope.value: scope for scope in Scope}


def known(names: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes with these stored names; unknown names, written by a newer version, are left out."""
    return frozenset(_BY_NAME[name] for name in names if name in _BY_NAME)


def scopes_of(role: Role) -> frozenset[Scope]:
    """Return the scopes that a signed-in user has by the role `role` in the organisation."""
    if role is Role.VIEWER:
        return VIEWER_SCOPES
    return PROJECT_SCOPES if role is Role.MEMBER else PROJECT_SCOPES | ADMIN_SCOPES
