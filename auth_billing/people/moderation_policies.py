"""Reads and changes moderation policies, by which administrators have a project's prompts and answers checked.

A change applies to new requests within seconds: gateways cache policies. While the store is unavailable, a cached
policy stays valid for longer, and a project whose policy is not cached is refused: nothing is sent unchecked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from auth_billing.access.model_access import MAX_MODEL_NAME
from auth_billing.access.roles import Actor, Role
from auth_billing.confirmed_cache import ConfirmedCache
from auth_billing.errors import NoSuchRecord, UnacceptableValue
from auth_billing.people.organisation_records import OrganisationStore

MAX_CATEGORIES = 100
"""Largest number of categories of a policy."""
MAX_CATEGORY_NAME = 100
CACHED_PROJECTS = 10_000


@dataclass(frozen=True)
class ModerationPolicy:
    """What is checked of a project's requests, by which model, and which categories block."""

    model: str
    """Name or alias of the moderation model, or that of the operator's rules."""
    categories: frozenset[str] | None = None
    """Names of the categories that block; `None`: every category."""
    prompts: bool = True
    """Whether prompts are checked."""
    answers: bool = True
    """Whether answers are checked."""


class ModerationPolicyStore(Protocol):
    """Store of moderation policies. Each method raises `StoreUnavailable` when the store does not answer in time."""

    async def find(self, organisation: str, project: str) -> ModerationPolicy | None:
        """Return the moderation policy of an organisation's project; `None` if it has none."""
        ...

    async def put(self, organisation: str, project: str, policy: ModerationPolicy) -> None:
        """Store the moderation policy of an organisation's project durably, in place of the earlier one."""
        ...

    async def remove(self, organisation: str, project: str) -> None:
        """Delete the moderation policy of an organisation's project; no effect if there is none."""
        ...


class ModerationPolicies:
    """Reads and changes the moderation policies of projects; caches those that requests need."""

    def __init__(
        self,
        store: ModerationPolicyStore,
        accounts: OrganisationStore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._cache: ConfirmedCache[tuple[str, str], ModerationPolicy | None] = ConfirmedCache(CACHED_PROJECTS, clock)

    async def of_request(self, organisation: str, project: str) -> ModerationPolicy | None:
        """Return the moderation policy that applies to a request in a project; `None` if nothing is checked.

        Raises:
            StoreUnavailable: the policy is not cached and the store does not answer.
        """
        if not project:  # of an admin key, which requests no model
            return None
        return await self._cache.read((organisation, project), lambda: self._store.find(organisation, project))

    async def find(self, organisation: str, project: str) -> ModerationPolicy | None:
        """Return the moderation policy of an organisation's project, from the store; `None` if it has none.

        Raises:
            NoSuchRecord: the organisation has no such project, or it is archived.
        """
        await self._check_project(organisation, project)
        return await self._store.find(organisation, project)

    async def set(self, actor: Actor, project: str, policy: ModerationPolicy | None) -> None:
        """Store the moderation policy of a project of the actor's organisation; `None` removes it.

        Raises:
            NotPermitted: the actor is no administrator.
            NoSuchRecord: the organisation has no such project, or it is archived.
            UnacceptableValue: the model's or a category's name is invalid, or the policy checks nothing.
        """
        actor.require(Role.ADMIN)
        await self._check_project(actor.organisation, project)
        try:
            if policy is None:
                await self._store.remove(actor.organisation, project)
            else:
                _check(policy)
                await self._store.put(actor.organisation, project, policy)
        finally:
            self._cache.forget((actor.organisation, project))

    async def _check_project(self, organisation: str, project: str) -> None:
        found = await self._accounts.find_project(organisation, project)
        if found is None or found.archived is not None:
            raise NoSuchRecord(f"no project {project} in {organisation}")


def _check(policy: ModerationPolicy) -> None:
    if not _is_name(policy.model, MAX_MODEL_NAME):
        raise UnacceptableValue("model", f"A model's name has 1 to {MAX_MODEL_NAME} printable characters.")
    if not (policy.prompts or policy.answers):
        raise UnacceptableValue("prompts", "A policy checks prompts, answers or both: delete it to check neither.")
    categories = policy.categories
    if categories is None:
        return
    if not 0 < len(categories) <= MAX_CATEGORIES:
        raise UnacceptableValue("categories", f"A policy names 1 to {MAX_CATEGORIES} categories.")
    if not all(_is_name(each, MAX_CATEGORY_NAME) for each in categories):
        raise UnacceptableValue("categories", f"A category has 1 to {MAX_CATEGORY_NAME} printable characters.")


def _is_name(name: str, longest: int) -> bool:
    return bool(name.strip()) and name.isprintable() and len(name) <= longest
