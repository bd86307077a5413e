"""In-memory credit entries over the accounts of `tests.fakes.billing_stores`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from auth_billing.errors import StoreUnavailable
from auth_billing.money.credit import CreditEntry, CreditKind, WithdrawalState
from tests.fakes.billing_stores import DictBalanceStore


class DictCreditStore:
    def __init__(self, balances: DictBalanceStore) -> None:
        self._balances = balances
        self.entries: dict[str, CreditEntry] = {}
        self.withdrawals: list[CreditEntry] = []
        self.forget_answers = 0
        """How many more entries are stored and then raise, as if the answer was lost."""

    async def applied(self, organisation: str) -> tuple[int, int]:
        await self._balances.create(organisation)
        balance = self._balances.balances[organisation]
        await asyncio.sleep(0)
        return balance.credits, balance.credited

    async def find(self, id: str) -> CreditEntry | None:
        await asyncio.sleep(0)
        return self.entries.get(id)

    async def find_numbered(self, organisation: str, number: int) -> CreditEntry | None:
        return next((each for each in self._of(organisation) if each.number == number), None)

    async def newest(self, organisation: str, limit: int) -> Sequence[CreditEntry]:
        own = [each for each in self.entries.values() if each.organisation == organisation]
        return sorted(own, key=lambda each: (each.at, each.number), reverse=True)[:limit]

    async def refunded(self, organisation: str, job: str) -> int:
        return sum(each.amount for each in self._of(organisation) if each.job == job)

    async def append(self, entry: CreditEntry) -> bool:
        await asyncio.sleep(0)
        if entry.id in self.entries or await self.find_numbered(entry.organisation, entry.number) is not None:
            return False
        self.entries[entry.id] = entry
        if self.forget_answers:
            self.forget_answers -= 1
            raise StoreUnavailable("no answer: it may have been stored")
        return True

    async def apply(self, entry: CreditEntry) -> None:
        await asyncio.sleep(0)
        balance = self._balances.balances[entry.organisation]
        if balance.credits == entry.number - 1:
            self._balances.balances[entry.organisation] = replace(
                balance,
                available=balance.available + entry.amount,
                credited=balance.credited + entry.amount,
                credits=entry.number,
            )

    async def withdrawal_state(self, organisation: str) -> WithdrawalState:
        await asyncio.sleep(0)
        taken = self._taken(organisation)
        unposted = taken[-1] if taken and taken[-1].id not in self.entries else None
        return WithdrawalState(len(taken), self._balances.balances[organisation].available, unposted)

    async def withdraw(self, entry: CreditEntry) -> bool:
        await asyncio.sleep(0)
        balance, taken = self._balances.balances[entry.organisation], self._taken(entry.organisation)
        if balance.available < entry.amount or entry.number != len(taken) + 1 or await self.unposted_withdrawals():
            return False
        self.withdrawals.append(entry)
        available, withdrawn = balance.available - entry.amount, balance.withdrawn + entry.amount
        self._balances.balances[entry.organisation] = replace(balance, available=available, withdrawn=withdrawn)
        return True

    async def post_withdrawal(self, entry: CreditEntry) -> None:
        await asyncio.sleep(0)
        self.entries[entry.id] = entry

    async def unposted_withdrawals(self) -> Sequence[CreditEntry]:
        return [each for each in self.withdrawals if each.id not in self.entries]

    def _taken(self, organisation: str) -> list[CreditEntry]:
        return [each for each in self.withdrawals if each.organisation == organisation]

    async def credited_since(self, at: float) -> Sequence[str]:
        return sorted({each.organisation for each in self.entries.values() if each.at >= at})

    def _of(self, organisation: str) -> list[CreditEntry]:
        own = [each for each in self.entries.values() if each.organisation == organisation]
        return sorted((each for each in own if each.kind is not CreditKind.WITHDRAWAL), key=lambda each: each.number)
