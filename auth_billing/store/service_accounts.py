"""MongoDB store of service accounts: `service_accounts {_id, organisation, project, name, created}`."""

from __future__ import annotations

from auth_billing.keys.service_accounts import ServiceAccount
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

COLLECTION = "service_accounts"


class MongoServiceAccountStore:
    """MongoDB implementation of `service_accounts.ServiceAccountStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._accounts = connection.durable(COLLECTION)

    async def add(self, account: ServiceAccount) -> None:
        """Store a new service account durably."""
        await self._accounts.insert_one(to_document(account))

    async def of_project(self, organisation: str, project: str) -> list[ServiceAccount]:
        """Return all service accounts of an organisation's project, oldest first."""
        found = self._accounts.find({"organisation": organisation, "project": project})
        return [from_document(ServiceAccount, each) async for each in found.sort([("created", 1), ("_id", 1)])]

    async def rename(self, account: ServiceAccount) -> None:
        """Set the stored name of the service account `account` to `account.name`; no effect if it is not stored."""
        await self._accounts.update_one({"_id": account.id}, {"$set": {"name": account.name}})

    async def remove(self, account: ServiceAccount) -> None:
        """Delete a service account; no effect if it does not exist."""
        await self._accounts.delete_one({"_id": account.id})
