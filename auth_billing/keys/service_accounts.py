"""Manages service accounts (owners of API keys that are not people); deleting one does not revoke its keys.

A key's `user` is the id of its user or account. The caller that deletes an account revokes its keys, with
`KeySet(user=...)`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord
from auth_billing.ids import new_id
from auth_billing.people.input_normalisation import checked_name


@dataclass(frozen=True)
class ServiceAccount:
    """A service account of a project: an owner of API keys that is not a person."""

    id: str
    organisation: str
    project: str
    name: str
    created: float


class ServiceAccountStore(Protocol):
    """Store of service accounts. Each method raises `StoreUnavailable` when the store does not answer in time."""

    async def add(self, account: ServiceAccount) -> None:
        """Store a new service account durably."""
        ...

    async def of_project(self, organisation: str, project: str) -> list[ServiceAccount]:
        """Return all service accounts of an organisation's project, oldest first."""
        ...

    async def rename(self, account: ServiceAccount) -> None:
        """Set the stored name of a service account to `account.name`; no effect if the account is not stored."""
        ...

    async def remove(self, account: ServiceAccount) -> None:
        """Delete a service account; no effect if it does not exist."""
        ...


class ServiceAccounts:
    """Manages the service accounts of projects. The caller checks that the project is the organisation's."""

    def __init__(self, store: ServiceAccountStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def create(self, actor: Actor, project: str, name: str) -> ServiceAccount:
        """Create a service account of a project, and return it; it has no API key yet.

        Raises:
            NotPermitted: the actor's role is below administrator.
            UnacceptableValue: the name is invalid.
        """
        actor.require(Role.ADMIN)
        account = ServiceAccount(new_id("svc_acct_"), actor.organisation, project, checked_name(name), self._clock())
        await self._store.add(account)
        return account

    async def all(self, organisation: str, project: str) -> list[ServiceAccount]:
        """Return all service accounts of an organisation's project, oldest first."""
        return await self._store.of_project(organisation, project)

    async def find(self, organisation: str, project: str, account_id: str) -> ServiceAccount:
        """Return the service account of a project that has this id.

        Raises:
            NoSuchRecord: the project has no service account with this id.
        """
        for account in await self.all(organisation, project):
            if account.id == account_id:
                return account
        raise NoSuchRecord(f"no service account {account_id} in {project}")

    async def rename(self, actor: Actor, project: str, account_id: str, name: str) -> ServiceAccount:
        """Change a service account's name and return the changed account.

        Raises:
            NotPermitted: the actor's role is below administrator.
            NoSuchRecord: the project has no service account with this id.
            UnacceptableValue: the name is invalid.
        """
        actor.require(Role.ADMIN)
        named = replace(await self.find(actor.organisation, project, account_id), name=checked_name(name))
        await self._store.rename(named)
        return named

    async def remove(self, actor: Actor, project: str, account_id: str) -> None:
        """Delete a service account; its API keys stay valid until the caller revokes them.

        Raises:
            NotPermitted: the actor's role is below administrator.
            NoSuchRecord: the project has no service account with this id.
        """
        actor.require(Role.ADMIN)
        await self._store.remove(await self.find(actor.organisation, project, account_id))
