"""What a caller may be allowed to do: the scopes that API keys are given. Each route names the one that it needs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from auth_billing.people.roles import Role


class Scope(StrEnum):
    """A right that a key has or has not."""

    CHAT_COMPLETIONS = "chat.completions"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    MODELS_READ = "models.read"
    """List models and look one up."""
    ORGANIZATION_READ = "organization.read"
    """Read usage, costs, and everything else that `/v1/organization` tells."""
    ORGANIZATION_ADMIN = "organization.admin"
    """Change the organisation: its projects, keys, users, limits and budgets."""


PROJECT_SCOPES = frozenset({Scope.CHAT_COMPLETIONS, Scope.COMPLETIONS, Scope.EMBEDDINGS, Scope.MODELS_READ})
"""What a project's key may have, and has unless it is given less."""

ADMIN_SCOPES = frozenset({Scope.ORGANIZATION_READ, Scope.ORGANIZATION_ADMIN})
"""What an organisation's admin key may have, and has unless it is given less."""


VIEWER_SCOPES = frozenset({Scope.MODELS_READ, Scope.ORGANIZATION_READ})


_BY_NAME = {scope.value: scope for scope in Scope}


def known(names: Iterable[str]) -> frozenset[Scope]:
    """Those of `names` that are scopes; one that a newer version has written gives no right here."""
    return frozenset(_BY_NAME[name] for name in names if name in _BY_NAME)


def scopes_of(role: Role) -> frozenset[Scope]:
    """What a person may do who is signed in."""
    if role is Role.VIEWER:
        return VIEWER_SCOPES
    return PROJECT_SCOPES if role is Role.MEMBER else PROJECT_SCOPES | ADMIN_SCOPES
