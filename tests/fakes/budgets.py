"""In-memory budgets in the accounts of `tests/fakes/billing_stores.py`."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.billing_stores import DictBalanceStore


class DictBudgetStore:
    def __init__(self, balances: DictBalanceStore) -> None:
        self.balances = balances

    async def set(self, organisation: str, name: str, limit: int | None) -> None:
        balance = self.balances.balances[organisation]
        budgets = {each: amount for each, amount in balance.budgets.items() if each != name}
        if limit is not None:
            budgets[name] = limit
        self.balances.balances[organisation] = replace(balance, budgets=budgets)

    async def inherit(self, organisation: str, successor: str, limit: int, month: str, used: int) -> None:
        await self.balances.inherit(organisation, successor, limit, month, used)
