"""Settles usage records: each is stored exactly once, then acknowledged, whatever is redelivered or reordered.

Records that come within `WRITE_INTERVAL` of a write are written together by the next one: a busy platform costs the
store few writes, an idle one waits for nothing. What such a write does not settle is settled one by one.

While the store is away a record stays unacknowledged and is tried again; the broker holds the rest back (prefetch), so
nothing is lost and memory is bounded. What a worker says is checked before it is stored; what can't be true is
parked for a person. Knows no prices yet.
"""

from __future__ import annotations

import asyncio
import math
import re
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from auth_billing.consuming import consume_until
from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.records import Insertion, UsageStore
from auth_billing.retry import RetryDelay, exponential_delay
from router import topology
from router.bus import Bus, Envelope, Inbound
from router.errors import PublishError
from router.messages import Receipt, UsageRecord

PREFETCH = 256
WRITE_INTERVAL = 0.05
"""Seconds between the beginnings of two writes, or one write's length if that is more."""
MAX_INT = 2**63 - 1
"""The store's integers have 64 bits."""
MAX_TEXT = 256
STOP_SECONDS = 5.0
"""How long records in hand may still be stored when the process stops; the others go back to the queue."""

_ID = re.compile(r"[A-Za-z0-9_.\-]{1,128}")

_log = structlog.get_logger(__name__)


class SettlementConsumer:
    """Takes usage records from the bus and stores them."""

    def __init__(
        self,
        bus: Bus,
        usage_store: UsageStore,
        *,
        metrics: BillingMetrics | None = None,
        retry_delay: RetryDelay = exponential_delay,
    ) -> None:
        self._bus = bus
        self._usage_store = usage_store
        self._metrics = metrics or BillingMetrics(CollectorRegistry())
        self._retry_delay = retry_delay
        self._waiting: list[Envelope[UsageRecord]] = []
        self._writing = False

    async def run(self, stop: asyncio.Event) -> None:
        """Settle until `stop`. Records in hand are finished if that is quick; others stay in the queue.

        Raises:
            BrokerUnavailable: the broker could not be asked for records.
        """
        inbound = await self._bus.settlements(prefetch=PREFETCH)
        await consume_until(stop, self._take(inbound), inbound.cancel, grace=STOP_SECONDS)

    async def _take(self, inbound: Inbound[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            async for envelope in inbound:  # the prefetch bounds how many there are at a time
                if isinstance(envelope.message, Receipt):  # nothing is priced yet
                    envelope.delivery.ack()
                    continue
                self._metrics.unsettled.inc()
                self._waiting.append(envelope)
                if not self._writing:
                    self._writing = True
                    group.create_task(self._settle_waiting(group))

    async def _settle_waiting(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            next_write = loop.time() + WRITE_INTERVAL
            for envelope in await self._unsettled_of(batch):
                group.create_task(self._settle(envelope))
            await asyncio.sleep(max(0.0, next_write - loop.time()))
        self._writing = False

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
    if not _ID.fullmatch(record.job) or not _ID.fullmatch(record.attempt):
        return "malformed job or attempt id"
    if any(len(text) > MAX_TEXT for text in (record.tenant, record.model, record.worker, record.digest)):
        return f"a name is longer than {MAX_TEXT} characters"
    usage = record.usage
    if any(not 0 <= n <= MAX_INT for n in (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)):
        return "a number of tokens is negative or past 64 bits"
    if usage.cached_tokens > usage.prompt_tokens:
        return "more cached tokens than prompt tokens"
    if not math.isfinite(record.at):
        return "the time is not a number"
    return None
