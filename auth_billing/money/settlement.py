"""Consumer of the settlement queue in the billing process: stores usage records as evidence, settles jobs by receipts.

Records and receipts arrive in any order, and either may be missing. A usage record says what a worker did, a receipt
what a client got. Only the receipt (or, if none arrives, the sweeper) determines the cost.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry
from tenacity.wait import wait_base

from auth_billing.consumer_runner import run_consumer
from auth_billing.metrics import BillingMetrics
from auth_billing.money.batcher import Batcher
from auth_billing.money.receipts import ReceiptHandler
from auth_billing.money.settler import Settler
from auth_billing.money.usage_records import UsageRecordHandler
from auth_billing.money.usage_store import UsageStore
from router.bus import Bus, TypedConsumer
from router.messages import Receipt
from runtime.retry import DEFAULT_WAIT

PREFETCH = 1024
"""Unacknowledged messages, two a job: enough that the prefetch does not limit throughput while a batch is written."""
STOP_TIMEOUT = 5.0
"""Seconds in which unacknowledged messages may still be settled after a stop; the rest returns to the queue."""


class SettlementConsumer:
    """Consumes usage records and receipts from the settlement queue, and handles each kind in batches."""

    def __init__(
        self,
        bus: Bus,
        usage_store: UsageStore,
        settler: Settler,
        *,
        metrics: BillingMetrics | None = None,
        retry_wait: wait_base = DEFAULT_WAIT,
    ) -> None:
        metrics = metrics or BillingMetrics(CollectorRegistry())
        self._bus = bus
        self._metrics = metrics
        self._records = Batcher(UsageRecordHandler(bus, usage_store, metrics, retry_wait).handle)
        self._receipts = Batcher(ReceiptHandler(bus, settler, metrics, retry_wait).handle)

    @property
    def keeps_up(self) -> bool:
        """Whether this consumer has fewer unacknowledged messages than its prefetch: no receipt waits at the broker."""
        return len(self._records) + len(self._receipts) < PREFETCH

    async def run(self, stop: asyncio.Event) -> None:
        """Consume receipts and usage records from the settlement queue until `stop` is set.

        The received ones are then finished for up to `STOP_TIMEOUT` seconds.

        Raises:
            BrokerUnavailable: the broker did not accept the consumer.
        """
        inbound = await self._bus.settlements(prefetch=PREFETCH)
        await run_consumer(stop, self._take(inbound), inbound.cancel, grace=STOP_TIMEOUT)

    async def _take(self, inbound: TypedConsumer[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            async for envelope in inbound:
                if isinstance(envelope.message, Receipt):
                    self._receipts.add(envelope, group)
                else:
                    self._metrics.unsettled.inc()
                    self._records.add(envelope, group)
