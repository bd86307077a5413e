"""Limits concurrent work, such as checks in a sandbox, and grants its slots fairly among tenants and requesters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from router.tenant_fair_queue import TenantFairQueue


class SlotRefused(Exception):
    """Raised to work that waits for a slot when `FairSlots.refuse_waiting` is called for its requester."""


class _Waiting(NamedTuple):
    tenant: str
    requester: str
    granted: asyncio.Future[None]


class FairSlots:
    """Slots of concurrent work, granted to the waiting tenants and requesters in turn. Use it on one event loop.

    Args:
        most: work that runs at the same time; further work waits.
        per_tenant: of one tenant, so that another tenant's work need not wait for slow work.
        per_requester: of one requester, so that another requester's of the tenant need not wait either.
    """

    def __init__(self, most: int, *, per_tenant: int, per_requester: int) -> None:
        self._most, self._per_tenant, self._per_requester = most, per_tenant, per_requester
        self._of_tenant: Counter[str] = Counter()
        self._of_requester: Counter[tuple[str, str]] = Counter()
        self._waiting: TenantFairQueue[_Waiting] = TenantFairQueue()

    @asynccontextmanager
    async def hold(self, tenant: str, requester: str) -> AsyncIterator[None]:
        """Wait for a slot for one piece of work of the requester, and hold the slot while the context lasts.

        Raises:
            SlotRefused: `refuse_waiting` was called for the requester meanwhile.
        """
        waiting = _Waiting(tenant, requester, asyncio.get_running_loop().create_future())
        self._waiting.push(tenant, requester, waiting)
        try:
            self._grant()
            await waiting.granted
            yield
        finally:
            if not self._waiting.discard(tenant, requester, waiting):
                self._of_tenant -= Counter((tenant,))
                self._of_requester -= Counter(((tenant, requester),))
                self._grant()

    def refuse_waiting(self, tenant: str, requester: str) -> None:
        """Make every `hold` of a requester that still waits for a slot raise `SlotRefused`."""
        for each in self._waiting:
            if (each.tenant, each.requester) == (tenant, requester) and not each.granted.done():
                each.granted.set_exception(SlotRefused())

    def _grant(self) -> None:
        while self._of_tenant.total() < self._most and (first := self._waiting.peek(self._may_start)):
            self._waiting.take(first.tenant, first.requester, first)
            self._of_tenant[first.tenant] += 1
            self._of_requester[first.tenant, first.requester] += 1
            if not first.granted.done():  # else its job was cancelled, and gives the slot back
                first.granted.set_result(None)

    def _may_start(self, waiting: _Waiting) -> bool:
        return (
            self._of_tenant[waiting.tenant] < self._per_tenant
            and self._of_requester[waiting.tenant, waiting.requester] < self._per_requester
        )
