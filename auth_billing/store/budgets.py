"""Budgets in MongoDB: `budgets` of an account's document (`store/balances.py`), where holds look at them."""

from __future__ import annotations

from auth_billing.store.balances import COLLECTION
from auth_billing.store.connection import StoreConnection, translated_errors


class MongoBudgetStore:
    """Implements `budgets.BudgetStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._accounts = connection.durable(COLLECTION)

    async def set(self, organisation: str, name: str, limit: int | None) -> None:
        """Set a budget, or take it away (`None`)."""
        field = f"budgets.{name}"
        change = {"$unset": {field: ""}} if limit is None else {"$set": {field: limit}}
        with translated_errors():
            await self._accounts.update_one({"_id": organisation}, change)

    async def inherit(self, organisation: str, heir: str, limit: int, month: str, used: int) -> None:
        """Set a budget that nothing counts against yet, and what is used of it in a month."""
        change = {"$set": {f"budgets.{heir}": limit, f"used.{month}.{heir}": used}}
        with translated_errors():
            await self._accounts.update_one({"_id": organisation}, change)
