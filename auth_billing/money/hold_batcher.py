"""Batches holds of a gateway: the requests of one payer that wait for the account are held in one update.

A hold that no credit lease covers is an update of the account's document, and updates of one document run one after
another. Under load, with its leases used up or unconfirmed, a gateway would make one update per request and fall
behind. So the requests that arrive during one update are held together in the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auth_billing.money.billing_records import BalanceStore, JobRecord
from auth_billing.money.credit_leases import Payer
from auth_billing.money.holds import MAX_HOLD

BATCH_SIZE = 64
"""Most requests in one update."""


@dataclass(frozen=True)
class _Pending:
    jobs: Sequence[JobRecord]
    budgets: Mapping[str, int]
    result: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class HoldBatcher:
    """Takes the holds of one gateway from accounts, many requests of a payer in one update."""

    def __init__(self, balances: BalanceStore) -> None:
        self._balances = balances
        self._pending: dict[Payer, list[_Pending]] = {}
        """Requests that wait, by payer; a payer is a key as long as an update of its account runs."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        """Hold the maximum cost (nano-USD) of one request's jobs, all or none; return whether the account allowed it.

        One update of the account takes the holds of several requests of the payer.

        Args:
            jobs: jobs of one request, with the same payer.
            budgets: limits in nano-USD of the organisation's budgets by name, as last read.

        Raises:
            StoreUnavailable: the outcome is unknown. After a cancellation of this call it is unknown too.
        """
        payer, request = Payer.of(jobs[0]), _Pending(jobs, budgets)
        if payer in self._pending:
            self._pending[payer].append(request)
        else:
            self._pending[payer] = [request]
            task = asyncio.create_task(self._hold_pending(payer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(request.result)

    async def _hold_pending(self, payer: Payer) -> None:
        while batch := self._pending[payer][:BATCH_SIZE]:
            del self._pending[payer][:BATCH_SIZE]
            await self._hold_batch(batch)
        del self._pending[payer]

    async def _hold_batch(self, batch: Sequence[_Pending]) -> None:
        """Hold a batch in one update; if the account does not allow that, each request by itself, in order."""
        jobs, budgets = [job for request in batch for job in request.jobs], batch[-1].budgets
        try:
            if sum(job.hold for job in jobs) <= MAX_HOLD and await self._balances.hold(jobs, budgets):
                for request in batch:
                    request.result.set_result(True)
                return
            for request in batch:
                alone = len(batch) > 1 and await self._balances.hold(request.jobs, budgets)
                request.result.set_result(alone)
        except Exception as error:  # noqa: BLE001 - every waiting request must get the error
            for request in batch:
                if not request.result.done():
                    request.result.set_exception(error)
                    request.result.exception()  # marks it as retrieved: the request may have been cancelled
