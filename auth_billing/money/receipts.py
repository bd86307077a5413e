"""Settles receipts: a gateway's word on what its client got is what the job costs, once, whatever is redelivered.

While the store is away receipts stay unacknowledged and are tried again. The first word on a job counts; another one
that comes later is ignored and counted. A receipt for a job that nobody knows, or that can't be true, is parked for a
person.
"""

from __future__ import annotations

import asyncio

import structlog

from auth_billing.errors import StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.books import Source, Word
from auth_billing.money.plausible import objection_to_job, objection_to_usage
from auth_billing.money.settler import Settler, Verdict
from auth_billing.retry import RetryDelay
from router import topology
from router.bus import Bus, Envelope
from router.errors import PublishError
from router.messages import Receipt

_log = structlog.get_logger(__name__)


class Receipts:
    """Handles batches of receipts."""

    def __init__(self, bus: Bus, settler: Settler, metrics: BillingMetrics, retry_delay: RetryDelay) -> None:
        self._bus = bus
        self._settler = settler
        self._metrics = metrics
        self._retry_delay = retry_delay

    async def handle(self, batch: list[Envelope[Receipt]], group: asyncio.TaskGroup) -> None:
        """Settle a batch; ends when all of it is settled, or given to somebody else by the broker."""
        while batch:
            firsts: dict[str, Envelope[Receipt]] = {}
            rest = []
            for envelope in batch:
                reason = objection(envelope.message)
                if reason is not None:
                    group.create_task(self._park(envelope, reason))
                elif firsts.setdefault(envelope.message.job, envelope) is not envelope:
                    rest.append(envelope)  # another word on the same job: after the first
            for job, verdict in (await self._settled(firsts)).items():
                self._close(firsts[job], verdict, group)
            batch = rest

    async def _settled(self, receipts: dict[str, Envelope[Receipt]]) -> dict[str, Verdict]:
        tries = 0
        while receipts := {job: each for job, each in receipts.items() if not each.delivery.lost}:
            try:
                return await self._settler.settle({job: _word(each.message) for job, each in receipts.items()})
            except StoreUnavailable as error:
                _log.warning("settlement delayed", receipts=len(receipts), tries=tries, reason=str(error))
                self._metrics.retries.inc()
                await asyncio.sleep(self._retry_delay(tries))
                tries += 1
        return {}

    def _close(self, envelope: Envelope[Receipt], verdict: Verdict, group: asyncio.TaskGroup) -> None:
        receipt = envelope.message
        if verdict is Verdict.UNKNOWN:
            group.create_task(self._park(envelope, "there is no such job"))
            return
        envelope.delivery.ack()
        self._metrics.receipts.labels(verdict.value).inc()
        if verdict is Verdict.CONFLICTING:
            _log.warning("receipt ignored: the job is settled", job=receipt.job, gateway=receipt.gateway)

    async def _park(self, envelope: Envelope[Receipt], reason: str) -> None:
        tries = 0
        while not envelope.delivery.lost:
            try:
                await self._bus.park(envelope.delivery, reason)
            except PublishError:
                await asyncio.sleep(self._retry_delay(tries))
                tries += 1
                continue
            self._metrics.parked.labels(topology.SETTLE_QUEUE).inc()
            _log.error("receipt parked", job=envelope.message.job[:128], reason=reason)
            return


def objection(receipt: Receipt) -> str | None:
    """Why a receipt can't be true; `None` if it can."""
    return objection_to_job(receipt.job) or objection_to_usage(receipt.usage)


def _word(receipt: Receipt) -> Word:
    return Word(receipt.usage, receipt.outcome, Source.RECEIPT)
