"""Sets and reads the monthly budgets of organisations, projects and API keys; every hold checks them (`billing.py`).

A budget limits what is spent and held together in a month (UTC), so it is never exceeded. It is stored in its
organisation's account. Callers must check that a project or a key belongs to the organisation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.money.amounts import check_amount
from auth_billing.money.billing_records import Balance, BalanceStore
from auth_billing.money.holds import key_budget, month_of


@dataclass(frozen=True)
class BudgetUse:
    """The use of one budget in a month, in nano-USD.

    `name` is as in `holds.budget_names`; `limit` is `None` if the budget has no limit.
    """

    name: str
    limit: int | None
    spent: int
    held: int


class BudgetStore(Protocol):
    """Store of budgets. Every method is one atomic update, may be repeated, and may raise `StoreUnavailable`."""

    async def set(self, organisation: str, name: str, limit: int | None) -> None:
        """Set the monthly limit of an organisation's budget `name` in nano-USD, or remove the limit (`None`)."""
        ...

    async def inherit(self, organisation: str, successor: str, limit: int, month: str, used: int) -> None:
        """Create the budget `successor` of an API key that replaces another.

        `limit`: the monthly limit, `used`: the use in `month` so far, both in nano-USD.
        """
        ...


class Budgets:
    """Sets and reads the monthly budgets of organisations.

    Args:
        store: where limits are set.
        balances: accounts, which have the budgets' use.
        clock: Unix seconds.
    """

    def __init__(self, store: BudgetStore, balances: BalanceStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._balances = balances
        self._clock = clock

    async def set(self, organisation: str, name: str, limit: int | None) -> None:
        """Set the monthly limit of an organisation's budget (nano-USD; 0 allows nothing), or remove it (`None`).

        All gateways apply the limit within two seconds.

        Raises:
            UnacceptableAmount: `limit` is negative or too large.
            StoreUnavailable: the outcome is unknown; repeat the call.
        """
        if limit is not None:
            check_amount(limit, minimum=0)
        await self._balances.create(organisation)
        await self._store.set(organisation, name, limit)

    async def inherit(self, organisation: str, key: str, successor: str) -> None:
        """Copy the budget of the API key `key`, with this month's use, to the key `successor` that replaces it.

        No effect if the key has no budget.

        Raises:
            StoreUnavailable: the outcome is unknown; repeat the call.
        """
        balance, month = await self._balances.find(organisation), month_of(self._clock())
        if balance is not None and (limit := balance.budgets.get(key_budget(key))) is not None:
            used = balance.used.get(month, {}).get(key_budget(key), 0)
            await self._store.inherit(organisation, key_budget(successor), limit, month, used)

    async def used(self, organisation: str) -> Sequence[BudgetUse]:
        """Return this month's use of each budget of an organisation, sorted by name, also of budgets without a limit.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        balance = await self._balances.find(organisation)
        return [] if balance is None else budget_usage(balance, month_of(self._clock()))


def budget_usage(balance: Balance, month: str) -> list[BudgetUse]:
    """Return the use of an account's budgets in `month` (e.g. `2026-11`), with or without limit, sorted by name."""
    used = balance.used.get(month, {})
    held = dict.fromkeys(used, 0)
    for hold in balance.held.values():
        if hold.month == month:
            held.update((name, held.get(name, 0) + hold.amount) for name in hold.budgets)
    names = sorted({*used, *balance.budgets})
    return [
        BudgetUse(name, balance.budgets.get(name), used.get(name, 0) - held.get(name, 0), held.get(name, 0))
        for name in names
    ]
