"""Service accounts in a dictionary."""

from __future__ import annotations

from auth_billing.keys.service_accounts import ServiceAccount


class DictServiceAccountStore:
    def __init__(self) -> None:
        self.accounts: dict[str, ServiceAccount] = {}

    async def add(self, account: ServiceAccount) -> None:
        self.accounts[account.id] = account

    async def of_project(self, organisation: str, project: str) -> list[ServiceAccount]:
        found = [a for a in self.accounts.values() if (a.organisation, a.project) == (organisation, project)]
        return sorted(found, key=lambda account: (account.created, account.id))

    async def rename(self, account: ServiceAccount) -> None:
        if account.id in self.accounts:
            self.accounts[account.id] = account

    async def remove(self, account: ServiceAccount) -> None:
        self.accounts.pop(account.id, None)
