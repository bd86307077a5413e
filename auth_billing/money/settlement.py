"""Takes what comes to be settled from the bus: usage records are kept as evidence, receipts settle their jobs.

In any order, and one without the other: a record says what a worker did, a receipt what a client got, and only the
receipt (or, if none comes, the sweeper) makes a cost of it. The prefetch bounds how much is in hand at a time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry

from auth_billing.consumer_runner import consume_until
from auth_billing.metrics import BillingMetrics
from auth_billing.money.batches import Batches
from auth_billing.money.receipts import Receipts
from auth_billing.money.settler import Settler
from auth_billing.money.usage_records import UsageRecords
from auth_billing.money.usage_store import UsageStore
from auth_billing.retry import RetryDelay, exponential_delay
from router.bus import Bus, Inbound
from router.messages import Receipt

PREFETCH = 1024
"""Messages in hand, two a job: what comes while a batch gathers and is written must not be what bounds a busy platform.
"""
STOP_SECONDS = 5.0
"""How long what is in hand may still be settled when the process stops; the rest goes back to the queue."""


class SettlementConsumer:
    """Takes usage records and receipts, and has each dealt with in batches of its kind."""

    def __init__(
        self,
        bus: Bus,
        usage_store: UsageStore,
        settler: Settler,
        *,
        metrics: BillingMetrics | None = None,
        retry_delay: RetryDelay = exponential_delay,
    ) -> None:
        metrics = metrics or BillingMetrics(CollectorRegistry())
        self._bus = bus
        self._metrics = metrics
        self._records = Batches(UsageRecords(bus, usage_store, metrics, retry_delay).handle)
        self._receipts = Batches(Receipts(bus, settler, metrics, retry_delay).handle)

    @property
    def keeps_up(self) -> bool:
        """Whether all that the broker has is in hand: no receipt waits behind others."""
        return len(self._records) + len(self._receipts) < PREFETCH

    async def run(self, stop: asyncio.Event) -> None:
        """Settle until `stop`. What is in hand is finished if that is quick; the rest stays in the queue.

        Raises:
            BrokerUnavailable: the broker could not be asked.
        """
        inbound = await self._bus.settlements(prefetch=PREFETCH)
        await consume_until(stop, self._take(inbound), inbound.cancel, grace=STOP_SECONDS)

    async def _take(self, inbound: Inbound[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            async for envelope in inbound:
                if isinstance(envelope.message, Receipt):
                    self._receipts.add(envelope, group)
                else:
                    self._metrics.unsettled.inc()
                    self._records.add(envelope, group)
