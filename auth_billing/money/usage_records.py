"""Keeps usage records: each is stored exactly once, then acknowledged, whatever is redelivered or reordered.

A batch is one write; what that does not store is stored one by one. While the store is away a record stays
unacknowledged and is tried again; the broker holds the rest back (prefetch), so nothing is lost and memory is bounded.
What a worker says is checked before it is stored; what can't be true is parked for a person. Knows no prices: a record
is evidence, a receipt is what counts (`receipts.py`).
"""

from __future__ import annotations

import asyncio
import math

import structlog

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.plausible import objection_to_job, objection_to_usage
from auth_billing.money.usage_store import Insertion, UsageStore
from auth_billing.retry import RetryDelay
from router import topology
from router.bus import Bus, Envelope
from router.errors import PublishError
from router.messages import UsageRecord

MAX_TEXT = 256

_log = structlog.get_logger(__name__)


class UsageRecords:
    """Handles batches of usage records."""

    def __init__(self, bus: Bus, usage_store: UsageStore, metrics: BillingMetrics, retry_delay: RetryDelay) -> None:
        self._bus = bus
        self._usage_store = usage_store
        self._metrics = metrics
        self._retry_delay = retry_delay

    async def handle(self, batch: list[Envelope[UsageRecord]], group: asyncio.TaskGroup) -> None:
        """Store a batch; what needs longer does so in tasks of `group`."""
        for envelope in await self._unsettled_of(batch):
            group.create_task(self._settle(envelope))

    async def _unsettled_of(self, batch: list[Envelope[UsageRecord]]) -> list[Envelope[UsageRecord]]:
        """Write a batch at once; returns what needs a look of its own: implausible, repeated, store away."""
        plausible: list[Envelope[UsageRecord]] = []
        left: list[Envelope[UsageRecord]] = []
        for envelope in batch:
            (plausible if objection(envelope.message) is None else left).append(envelope)
        if not plausible:
            return left
        try:
            stored = await self._usage_store.add_new([envelope.message for envelope in plausible])
        except (StoreUnavailable, RecordRefused):
            return batch
        for envelope, new in zip(plausible, stored, strict=True):
            if new:
                self._settled(envelope, Insertion.NEW)
            else:
                left.append(envelope)
        return left

    async def _settle(self, envelope: Envelope[UsageRecord]) -> None:
        tries = 0
        while not envelope.delivery.lost:  # lost: the broker gives it to somebody again
            try:
                await self._try_to_settle(envelope)
                return
            except (StoreUnavailable, PublishError) as error:
                _log.warning("settlement delayed", job=envelope.message.job, tries=tries, reason=str(error))
                self._metrics.retries.inc()
                await asyncio.sleep(self._retry_delay(tries))
                tries += 1
        self._metrics.unsettled.dec()

    async def _try_to_settle(self, envelope: Envelope[UsageRecord]) -> None:
        record = envelope.message
        reason = objection(record)
        if reason is None:
            try:
                insertion = await self._usage_store.add(record)
            except RecordRefused as error:
                reason = f"the store refused it: {error}"
            else:
                if insertion is not Insertion.CONFLICTING:
                    self._settled(envelope, insertion)
                    return
                reason = "another record of the same job and attempt is stored"
        await self._bus.park(envelope.delivery, reason)
        self._metrics.unsettled.dec()
        self._metrics.parked.labels(topology.SETTLE_QUEUE).inc()
        _log.error("usage record parked", job=record.job[:MAX_TEXT], worker=record.worker[:MAX_TEXT], reason=reason)

    def _settled(self, envelope: Envelope[UsageRecord], insertion: Insertion) -> None:
        envelope.delivery.ack()
        self._metrics.unsettled.dec()
        if insertion is Insertion.REPEATED:
            self._metrics.repeated.inc()
        else:
            self._metrics.settled.labels(envelope.message.outcome.value).inc()


def objection(record: UsageRecord) -> str | None:
    """Why a record can't be true; `None` if it can. Workers are not trusted with more than their own words."""
    if any(len(text) > MAX_TEXT for text in (record.tenant, record.model, record.worker, record.digest)):
        return f"a name is longer than {MAX_TEXT} characters"
    if not math.isfinite(record.at):
        return "the time is not a number"
    return objection_to_job(record.job, record.attempt) or objection_to_usage(record.usage)
