"""Settles jobs by gateways' receipts: a job costs what its gateway delivered to the client, once, despite redelivery.

While the store is unavailable receipts stay unacknowledged and are retried. The first statement on a job is final; a
different receipt that comes later is ignored and counted. A receipt for an unknown job, or one that cannot be true, is
parked for an operator.
"""

from __future__ import annotations

import asyncio

import structlog
from tenacity.wait import wait_base

from auth_billing.errors import StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing_records import SettlementSource, UsageStatement
from auth_billing.money.message_validation import ids_error, parts_error, usage_error
from auth_billing.money.settler import SettlementResult, Settler
from router import topology
from router.bus import Bus, Envelope
from router.errors import PublishError
from router.messages import Receipt, ReportedUsage
from router.usage_arithmetic import merged
from runtime.retry import Backoff

_log = structlog.get_logger(__name__)


class ReceiptHandler:
    """Settles jobs from batches of receipts; parks receipts that are invalid or whose job is unknown."""

    def __init__(self, bus: Bus, settler: Settler, metrics: BillingMetrics, retry_wait: wait_base) -> None:
        self._bus = bus
        self._settler = settler
        self._metrics = metrics
        self._retry_wait = retry_wait

    async def handle(self, batch: list[Envelope[Receipt]], group: asyncio.TaskGroup) -> None:
        """Settle the jobs of a batch of receipts and acknowledge the receipts.

        Tasks of `group` park receipts that are invalid or whose job is unknown, on the queue for inspection. Retries
        for as long as the store is unavailable, so it raises no `StoreUnavailable`; receipts that the broker redelivers
        elsewhere meanwhile are dropped.
        """
        while batch:
            firsts: dict[str, Envelope[Receipt]] = {}
            rest = []
            for envelope in batch:
                reason = receipt_error(envelope.message)
                if reason is not None:
                    group.create_task(self._park(envelope, reason))
                elif firsts.setdefault(envelope.message.job, envelope) is not envelope:
                    rest.append(envelope)  # another receipt of the same job: settled after the first
            for job, result in (await self._settle(firsts)).items():
                self._close(firsts[job], result, group)
            batch = rest

    async def _settle(self, receipts: dict[str, Envelope[Receipt]]) -> dict[str, SettlementResult]:
        backoff = Backoff(self._retry_wait)
        while receipts := {job: each for job, each in receipts.items() if not each.delivery.lost}:
            try:
                return await self._settler.settle({job: _statement(each.message) for job, each in receipts.items()})
            except StoreUnavailable as error:
                _log.warning("settlement delayed", receipts=len(receipts), tries=backoff.failures, reason=str(error))
                self._metrics.retries.inc()
                await backoff.sleep()
        return {}

    def _close(self, envelope: Envelope[Receipt], result: SettlementResult, group: asyncio.TaskGroup) -> None:
        receipt = envelope.message
        if result is SettlementResult.UNKNOWN:
            group.create_task(self._park(envelope, "there is no such job"))
            return
        envelope.delivery.ack()
        self._metrics.receipts.labels(result.value).inc()
        if result is SettlementResult.CONFLICTING:
            _log.warning("receipt ignored: the job is settled", job=receipt.job, gateway=receipt.gateway)

    async def _park(self, envelope: Envelope[Receipt], reason: str) -> None:
        backoff = Backoff(self._retry_wait)
        while not envelope.delivery.lost:
            try:
                await self._bus.park(envelope.delivery, reason)
            except PublishError:
                await backoff.sleep()
                continue
            self._metrics.parked.labels(topology.SETTLE_QUEUE).inc()
            _log.error("receipt parked", job=envelope.message.job[:128], reason=reason)
            return


def receipt_error(receipt: Receipt) -> str | None:
    """Return the reason why a receipt's ids or counts can't be true, `None` if the receipt is valid."""
    return ids_error(receipt.job) or usage_error(receipt.usage) or parts_error(receipt.parts)


def _statement(receipt: Receipt) -> UsageStatement:
    return UsageStatement(
        receipt.usage,
        receipt.outcome,
        SettlementSource.RECEIPT,
        parts=merged(receipt.parts),
        reported=_plausible(receipt.reported),
    )


def _plausible(reported: ReportedUsage | None) -> ReportedUsage | None:
    """Return what a worker reported, or `None` if it can't be true: that is no evidence, and parks no receipt."""
    if reported is None:
        return None
    error = ids_error(reported.attempt) or usage_error(reported.usage) or parts_error(reported.parts)
    error = error or parts_error(reported.checks)
    return None if error else reported
