"""Defines the principal: the authenticated caller of a request, an API key or a signed-in user, with its rights."""

from __future__ import annotations

from dataclasses import dataclass

from auth_billing.access.model_access import ALL_MODELS, ModelAccess
from auth_billing.access.scopes import PROJECT_SCOPES, Scope


@dataclass(frozen=True)
class Principal:
    """The authenticated caller of a request and the caller's rights: an API key, or a signed-in user."""

    key_id: str
    """Id of the API key; empty: a browser session."""
    tenant: str
    """Id of the organisation."""
    cache_salt: str
    """Separates the tenant's prefix cache from those of other tenants."""
    project: str = ""
    """Id of the project; empty: none (an admin key)."""
    user: str = ""
    """Id of the user or service account; empty: none."""
    scopes: frozenset[Scope] = PROJECT_SCOPES
    models: ModelAccess = ALL_MODELS
    """The models that may be requested."""
    in_background: bool = False
    """Whether no client waits for the answers, as for those of a batch: all jobs are of the service class `flex`."""

    @property
    def requester(self) -> str:
        """Id of the principal's user or service account, else of its API key: the unit of fairness in a tenant."""
        return self.user or self.key_id

    def may(self, scope: Scope) -> bool:
        """Return whether the principal has the scope `scope`, which is the right to call certain routes."""
        return scope in self.scopes
