"""Service accounts: owners of a project's keys that are no people. A key of one is known by its id, as a person's is.

Knows no HTTP and no MongoDB. Whoever deletes one ends its keys (`KeySet(user=...)`), which this does not know of.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from auth_billing.errors import NoSuchRecord
from auth_billing.ids import new_id
from auth_billing.people.given_text import checked_name
from auth_billing.people.roles import Actor, Role


@dataclass(frozen=True)
class ServiceAccount:
    """An owner of keys."""

    id: str
    organisation: str
    project: str
    name: str
    created: float


class ServiceAccountStore(Protocol):
    """Where they are. Each method raises `StoreUnavailable` when the store does not answer in time."""

    async def add(self, account: ServiceAccount) -> None:
        """Store a new one, durably."""
        ...

    async def of_project(self, organisation: str, project: str) -> list[ServiceAccount]:
        """All of a project, oldest first."""
        ...

    async def rename(self, account: ServiceAccount) -> None:
        """Give it the name that it has here, if it is there."""
        ...

    async def remove(self, account: ServiceAccount) -> None:
        """Forget it."""
        ...


class ServiceAccounts:
    """Service accounts of projects. That a project is the organisation's is the caller's to know."""

    def __init__(self, store: ServiceAccountStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def create(self, actor: Actor, project: str, name: str) -> ServiceAccount:
        """A new one.

        Raises:
            NotPermitted, UnacceptableValue
        """
        actor.require(Role.ADMIN)
        account = ServiceAccount(new_id("svc_acct_"), actor.organisation, project, checked_name(name), self._clock())
        await self._store.add(account)
        return account

    async def all(self, organisation: str, project: str) -> list[ServiceAccount]:
        """Those of a project, oldest first."""
        return await self._store.of_project(organisation, project)

    async def find(self, organisation: str, project: str, account_id: str) -> ServiceAccount:
        """One of them.

        Raises:
            NoSuchRecord: the project has none with this id.
        """
        for account in await self.all(organisation, project):
            if account.id == account_id:
                return account
        raise NoSuchRecord(f"no service account {account_id} in {project}")

    async def rename(self, actor: Actor, project: str, account_id: str, name: str) -> ServiceAccount:
        """Call it something else.

        Raises:
            NotPermitted, NoSuchRecord, UnacceptableValue
        """
        actor.require(Role.ADMIN)
        named = replace(await self.find(actor.organisation, project, account_id), name=checked_name(name))
        await self._store.rename(named)
        return named

    async def remove(self, actor: Actor, project: str, account_id: str) -> None:
        """Forget it.

        Raises:
            NotPermitted, NoSuchRecord
        """
        actor.require(Role.ADMIN)
        await self._store.remove(await self.find(actor.organisation, project, account_id))
