"""Monthly budgets of an organisation, its projects and its keys: set here, kept to by every hold (`billing.py`).

A budget bounds what is spent and held together in a month (UTC), so that it is never overrun. It lives in its
organisation's account; whether a project or a key is the organisation's is the caller's to know. Knows no MongoDB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.money.amounts import check_amount
from auth_billing.money.books import Balance, BalanceStore
from auth_billing.money.holds import key_budget, month_of


@dataclass(frozen=True)
class BudgetUse:
    """One budget in a month, in nano-USD. `name` as `holds.budgets_of` makes it; `limit` is `None` if there is none."""

    name: str
    limit: int | None
    spent: int
    held: int


class BudgetStore(Protocol):
    """Where budgets are. Every method may raise `StoreUnavailable`; each may be repeated."""

    async def set(self, organisation: str, name: str, limit: int | None) -> None:
        """Set a budget, or take it away (`None`)."""
        ...

    async def inherit(self, organisation: str, heir: str, limit: int, month: str, used: int) -> None:
        """Set a budget that nothing counts against yet, and what is used of it in a month."""
        ...


class Budgets:
    """The budgets of organisations.

    Args:
        store: where budgets are.
        balances: what is used of them.
        clock: Unix seconds.
    """

    def __init__(self, store: BudgetStore, balances: BalanceStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._balances = balances
        self._clock = clock

    async def set(self, organisation: str, name: str, limit: int | None) -> None:
        """Set a budget (nano-USD a month; 0 allows nothing), or take it away. It counts within two seconds.

        Raises:
            UnacceptableAmount
            StoreUnavailable: to be set again.
        """
        if limit is not None:
            check_amount(limit, least=0)
        await self._balances.open(organisation)
        await self._store.set(organisation, name, limit)

    async def inherit(self, organisation: str, key: str, heir: str) -> None:
        """Give the key that takes another's place its budget, and what is used of it this month, held or spent.

        Raises:
            StoreUnavailable: to be done again.
        """
        balance, month = await self._balances.find(organisation), month_of(self._clock())
        if balance is not None and (limit := balance.budgets.get(key_budget(key))) is not None:
            used = balance.used.get(month, {}).get(key_budget(key), 0)
            await self._store.inherit(organisation, key_budget(heir), limit, month, used)

    async def used(self, organisation: str) -> Sequence[BudgetUse]:
        """What is used this month, with and without a budget, by name.

        Raises:
            StoreUnavailable
        """
        balance = await self._balances.find(organisation)
        return [] if balance is None else budgets_used(balance, month_of(self._clock()))


def budgets_used(balance: Balance, month: str) -> list[BudgetUse]:
    """What is used of each budget of an account in a month, by name."""
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
