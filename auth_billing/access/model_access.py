"""Decides which models a principal may use: those that every model policy on the principal permits.

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
        """Return whether this policy alone permits a model; `names`: the model's name and its aliases."""
        return self.models.isdisjoint(names) is (self.mode is PolicyMode.DENY)


UNRESTRICTED = ModelPolicy(PolicyMode.DENY, frozenset())
"""The policy that permits every model: the same as no policy."""


@dataclass(frozen=True)
class ModelAccess:
    """The models that a principal may use: those that all `policies` permit; without policies every model."""

    policies: tuple[ModelPolicy, ...] = ()

    def permits(self, names: Collection[str]) -> bool:
        """Return whether all policies permit a model; `names`: the model's name and its aliases."""
        return all(policy.permits(names) for policy in self.policies)

    def forbids(self, names: Collection[str]) -> bool:
        """Return whether a policy that lists forbidden models lists this one.

        `names`: the model's name and its aliases. Lists of permitted models are ignored: a model that they lack is not
        permitted, but not forbidden by name.
        """
        lists = (policy for policy in self.policies if policy.mode is PolicyMode.DENY)
        return not all(policy.permits(names) for policy in lists)

    def restricted_to(self, models: frozenset[str] | None) -> ModelAccess:
        """Return this access limited to an API key's list `models`; `None`: the access unchanged."""
        return self if models is None else ModelAccess((*self.policies, ModelPolicy(PolicyMode.ALLOW, models)))

    def covers(self, models: frozenset[str] | None) -> bool:
        """Return whether all models with the names `models` may be used; `None` stands for every model."""
        if models is None:
            return not self.policies
        return all(self.permits([name]) for name in models)


ALL_MODELS = ModelAccess()
"""Access to every model."""


def checked_models(models: Collection[str], field: str) -> frozenset[str]:
    """Check a list of model names, the input field `field`, and return the names as a set.

    Raises:
        UnacceptableValue: too many names, or a name is empty, too long or not printable.
    """
    if any(not (name.strip() and name.isprintable() and len(name) <= MAX_MODEL_NAME) for name in models):
        raise UnacceptableValue(field, f"A model's name has 1 to {MAX_MODEL_NAME} printable characters.")
    if len(models) > MAX_MODELS:
        raise UnacceptableValue(field, f"A list names {MAX_MODELS} models at most.")
    return frozenset(models)
