"""Stores workers' usage records: each is stored exactly once, then acknowledged, despite redelivery and reordering.

A batch is one write; records that it does not store are stored one by one. While the store is unavailable a record
stays unacknowledged and is retried, and the prefetch bounds memory. A record that cannot be true is parked for an
operator. Usage records are evidence: receipts determine costs (`receipts.py`).
"""

from __future__ import annotations

import asyncio
import math

import structlog
from tenacity.wait import wait_base

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.message_validation import ids_error, parts_error, usage_error
from auth_billing.money.usage_store import Insertion, UsageStore
from router import topology
from router.bus import Bus, Envelope
from router.errors import PublishError
from router.messages import UsageRecord
from runtime.retry import Backoff

MAX_TEXT = 256

_log = structlog.get_logger(__name__)


class UsageRecordHandler:
    """Stores batches of usage records."""

    def __init__(self, bus: Bus, usage_store: UsageStore, metrics: BillingMetrics, retry_wait: wait_base) -> None:
        self._bus = bus
        self._usage_store = usage_store
        self._metrics = metrics
        self._retry_wait = retry_wait

    async def handle(self, batch: list[Envelope[UsageRecord]], group: asyncio.TaskGroup) -> None:
        """Store a batch of usage records in one write and acknowledge the messages.

        Tasks of `group` retry, acknowledge or park what was not stored. Retries for as long as the store is
        unavailable, so it raises no `StoreUnavailable`.
        """
        for envelope in await self._store_batch(batch):
            group.create_task(self._settle(envelope))

    async def _store_batch(self, batch: list[Envelope[UsageRecord]]) -> list[Envelope[UsageRecord]]:
        """Store a batch in one write; return the invalid and repeated records, or all if the store failed."""
        valid: list[Envelope[UsageRecord]] = []
        left: list[Envelope[UsageRecord]] = []
        for envelope in batch:
            (valid if record_error(envelope.message) is None else left).append(envelope)
        if not valid:
            return left
        try:
            stored = await self._usage_store.add_new([envelope.message for envelope in valid])
        except (StoreUnavailable, RecordRefused):
            return batch
        for envelope, new in zip(valid, stored, strict=True):
            if new:
                self._acknowledge(envelope, Insertion.NEW)
            else:
                left.append(envelope)
        return left

    async def _settle(self, envelope: Envelope[UsageRecord]) -> None:
        backoff = Backoff(self._retry_wait)
        while not envelope.delivery.lost:  # lost: the broker delivers it again
            try:
                await self._try_to_settle(envelope)
                return
            except (StoreUnavailable, PublishError) as error:
                _log.warning("settlement delayed", job=envelope.message.job, tries=backoff.failures, reason=str(error))
                self._metrics.retries.inc()
                await backoff.sleep()
        self._metrics.unsettled.dec()

    async def _try_to_settle(self, envelope: Envelope[UsageRecord]) -> None:
        record = envelope.message
        reason = record_error(record)
        if reason is None:
            try:
                insertion = await self._usage_store.add(record)
            except RecordRefused as error:
                reason = f"the store refused it: {error}"
            else:
                if insertion is not Insertion.CONFLICTING:
                    self._acknowledge(envelope, insertion)
                    return
                reason = "another record of the same job and attempt is stored"
        await self._bus.park(envelope.delivery, reason)
        self._metrics.unsettled.dec()
        self._metrics.parked.labels(topology.SETTLE_QUEUE).inc()
        _log.error("usage record parked", job=record.job[:MAX_TEXT], worker=record.worker[:MAX_TEXT], reason=reason)

    def _acknowledge(self, envelope: Envelope[UsageRecord], insertion: Insertion) -> None:
        envelope.delivery.ack()
        self._metrics.unsettled.dec()
        if insertion is Insertion.REPEATED:
            self._metrics.repeated.inc()
        else:
            self._metrics.settled.labels(envelope.message.outcome.value).inc()


def record_error(record: UsageRecord) -> str | None:
    """Return why a usage record's names, time, ids or counts can't be true; `None` if the record is valid."""
    if any(len(text) > MAX_TEXT for text in (record.tenant, record.model, record.worker, record.digest)):
        return f"a name is longer than {MAX_TEXT} characters"
    if not math.isfinite(record.at):
        return "the time is not a number"
    return ids_error(record.job, record.attempt) or usage_error(record.usage) or parts_error(record.parts)
