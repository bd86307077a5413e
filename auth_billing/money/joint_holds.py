"""Holds of one payer, taken together while the store is busy with an earlier one of his.

A hold that no lease pays is an update of the account, and each waits for the one before it. A gateway under load, whose
leases have run out or are not trusted, would ask for one a request, and be slower the more there are; so what comes
while one is under way is asked for in one update after it. Knows nothing of leases and of why a hold is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auth_billing.money.books import BalanceStore, JobRecord
from auth_billing.money.credit_leases import Payer
from auth_billing.money.holds import MOST_HELD

BATCH = 64
"""Requests in one update."""


@dataclass(frozen=True)
class _Asked:
    jobs: Sequence[JobRecord]
    budgets: Mapping[str, int]
    answer: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class JointHolds:
    """The holds that one gateway asks accounts for."""

    def __init__(self, balances: BalanceStore) -> None:
        self._balances = balances
        self._waiting: dict[Payer, list[_Asked]] = {}
        """By payer, of all that have an update under way."""
        self._running: set[asyncio.Task[None]] = set()

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        """Hold what the jobs of one request may cost, all or none; false if the account does not allow it.

        Args:
            jobs: of one payer.
            budgets: of the organisation, as last seen.

        Raises:
            StoreUnavailable: not known. Nor is it for somebody who is cancelled while he waits.
        """
        payer, asked = Payer.of(jobs[0]), _Asked(jobs, budgets)
        if payer in self._waiting:
            self._waiting[payer].append(asked)
        else:
            self._waiting[payer] = [asked]
            task = asyncio.create_task(self._hold_waiting(payer))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await asyncio.shield(asked.answer)

    async def _hold_waiting(self, payer: Payer) -> None:
        while together := self._waiting[payer][:BATCH]:
            del self._waiting[payer][:BATCH]
            await self._hold_together(together)
        del self._waiting[payer]

    async def _hold_together(self, together: Sequence[_Asked]) -> None:
        """All in one update; if that is too much for the account, each as far as it goes."""
        jobs, budgets = [job for asked in together for job in asked.jobs], together[-1].budgets
        try:
            if sum(job.hold for job in jobs) <= MOST_HELD and await self._balances.hold(jobs, budgets):
                for asked in together:
                    asked.answer.set_result(True)
                return
            for asked in together:
                alone = len(together) > 1 and await self._balances.hold(asked.jobs, budgets)
                asked.answer.set_result(alone)
        except Exception as error:  # noqa: BLE001 - whatever it is, each that waits has to hear of it
            for asked in together:
                if not asked.answer.done():
                    asked.answer.set_exception(error)
                    asked.answer.exception()  # nobody need be waiting
