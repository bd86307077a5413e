"""MongoDB store of budgets: `budgets` in an account's document (`store/balances.py`), where holds check them."""

from __future__ import annotations

from auth_billing.store.balances import COLLECTION
from auth_billing.store.connection import StoreConnection


class MongoBudgetStore:
    """MongoDB implementation of `money.budgets.BudgetStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._accounts = connection.durable(COLLECTION)

    async def set(self, organisation: str, name: str, limit: int | None) -> None:
        """Set the monthly limit of an organisation's budget `name` in nano-USD, or remove the limit (`None`).

        No effect if the organisation has no account.
        """
        field = f"budgets.{name}"
        change = {"$unset": {field: ""}} if limit is None else {"$set": {field: limit}}
        await self._accounts.update_one({"_id": organisation}, change)

    async def inherit(self, organisation: str, successor: str, limit: int, month: str, used: int) -> None:
        """Create the budget `successor` for an API key that replaces another, with its use in `month` so far.

        The monthly limit and the use are in nano-USD.
        """
        change = {"$set": {f"budgets.{successor}": limit, f"used.{month}.{successor}": used}}
        await self._accounts.update_one({"_id": organisation}, change)
