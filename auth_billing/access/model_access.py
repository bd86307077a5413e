"""Access to models: a principal may use the models that every policy on it permits.

Policies name models by their own names or by the operator's aliases. The gateway's catalogue, which has the aliases,
passes all names of a model.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from auth_billing.errors import UnacceptableValue

MAX_MODELS = 100
"""Largest number of names in a policy or in an API key's list."""
MAX_MODEL_NAME = 200


class PolicyMode(StrEnum):
    """Whether a policy lists the permitted models or the forbidden ones."""

    ALLOW = "allow_list"
    DENY = "deny_list"


@dataclass(frozen=True)
class ModelPolicy:
    """A list of the only models that may be used, or of models that may not be used; exact names or aliases."""

    mode: PolicyMode
    models: frozenset[str]

    def permits(self, names: Collection[str]) -> bool:
        """Whether a model with these `names` (its own and its aliases) may be used."""
        return self.models.isdisjoint(names) is (self.mode is PolicyMode.DENY)


UNRESTRICTED = ModelPolicy(PolicyMode.DENY, frozenset())
"""The policy that permits every model: the same as no policy."""


@dataclass(frozen=True)
class ModelAccess:
    """The models that a principal may use: those that all `policies` permit; without policies every model."""

    policies: tuple[ModelPolicy, ...] = ()

    def permits(self, names: Collection[str]) -> bool:
        """Whether a model with these `names` (its own and its aliases) may be used."""
        return all(policy.permits(names) for policy in self.policies)

    def forbids(self, names: Collection[str]) -> bool:
        """Whether a list of forbidden models has one of `names`. A model that no list of permitted ones has is not."""
        lists = (policy for policy in self.policies if policy.mode is PolicyMode.DENY)
        return not all(policy.permits(names) for policy in lists)

    def restricted_to(self, models: frozenset[str] | None) -> ModelAccess:
        """Return the intersection with an API key's list of models; `None`: no list."""
        return self if models is None else ModelAccess((*self.policies, ModelPolicy(PolicyMode.ALLOW, models)))

    def covers(self, models: frozenset[str] | None) -> bool:
        """Whether each of `models` (names; `None`: every model) may be used."""
        if models is None:
            return not self.policies
        return all(self.permits([name]) for name in models)


ALL_MODELS = ModelAccess()
"""Access to every model."""


def checked_models(models: Collection[str], field: str) -> frozenset[str]:
    """Return the names in `models`, the value of an input `field`, as a set.

    Raises:
        UnacceptableValue: too many names, or a name is empty, too long or not printable.
    """
    if any(not (name.strip() and name.isprintable() and len(name) <= MAX_MODEL_NAME) for name in models):
        raise UnacceptableValue(field, f"A model's name has 1 to {MAX_MODEL_NAME} printable characters.")
    if len(models) > MAX_MODELS:
        raise UnacceptableValue(field, f"A list names {MAX_MODELS} models at most.")
    return frozenset(models)
