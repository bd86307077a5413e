"""Reaper: closes dead-lettered jobs (expired, redelivered too often, rejected) and notifies their gateways, once.

The broker moves such a job to the dead-letter queue. Here its gateway gets the terminal message that no worker will
send, and a usage record with zero usage goes to settlement. A job that did not merely expire is kept with its diagnosis
(docs/dead-letters.md). All messages are sent before the dead letter is acknowledged, and their attempt id is derived
from the job, so that a crash in between repeats messages without an effect.

No worker has this attempt id: gateways must accept a `Failed` of an attempt that they have not bound.
"""

from __future__ import annotations

import asyncio
import time
import uuid

import msgspec
import structlog
from prometheus_client import CollectorRegistry
from tenacity.wait import wait_base

from auth_billing.consumer_runner import run_consumer
from auth_billing.metrics import BillingMetrics
from auth_billing.money.message_validation import ids_error
from router import messages, topology
from router.bus import Bus
from router.diagnosis import REASON_HEADER, Diagnosis
from router.errors import PublishError, UndecodableMessage
from router.messages import REAPER, Failed, FailureCode, Job, Outcome, Usage, UsageRecord, Window
from router.transport.base import Consumer, Delivery
from runtime.retry import DEFAULT_WAIT, Backoff

PREFETCH = 32
STOP_TIMEOUT = 5.0
"""Seconds in which received dead letters may still be closed after a stop; the rest returns to the queue."""
MAX_ROUTING_KEY = 255
"""Longest routing key in bytes (an AMQP 0-9-1 short string)."""

_ATTEMPTS = uuid.UUID("5f0c9d0e-8a53-4b0e-9d0a-6f3d3c1b7a42")
"""UUID namespace of the reaper's attempt ids."""

EXPIRED, RETURNED, REJECTED = "expired", "delivery_limit", "rejected"
FAILURES: dict[str | None, tuple[FailureCode, str]] = {
    EXPIRED: (FailureCode.DEADLINE_EXCEEDED, "The request's deadline passed before a worker took it."),
    RETURNED: (FailureCode.FAILED_REPEATEDLY, "The request failed repeatedly and was given up."),
    REJECTED: (FailureCode.ENGINE_ERROR, "The request could not be processed."),
}
"""Failure code and message for the caller, by the broker's dead-letter reason."""
UNDECODABLE = (FailureCode.UNDECODABLE, "The request could not be read by a worker.")

_log = structlog.get_logger(__name__)


class _Address(msgspec.Struct, frozen=True):
    """The fields needed to answer a job that is otherwise undecodable (for example of another version)."""

    id: str
    reply_to: str


class Reaper:
    """Consumes dead-lettered jobs and closes each: notifies its gateway and publishes a usage record without tokens."""

    def __init__(
        self, bus: Bus, *, metrics: BillingMetrics | None = None, retry_wait: wait_base = DEFAULT_WAIT
    ) -> None:
        self._bus = bus
        self._metrics = metrics or BillingMetrics(CollectorRegistry())
        self._retry_wait = retry_wait

    async def run(self, stop: asyncio.Event) -> None:
        """Close the jobs of the dead-letter queue one by one until `stop` is set.

        For each job, notify its gateway, publish a usage record without tokens, and keep the message in the queue of
        diagnosed messages unless the job expired.

        Raises:
            BrokerUnavailable: consuming the dead-letter queue failed.
        """
        consumer = await self._bus.dead_jobs(prefetch=PREFETCH)

        await run_consumer(stop, self._take(consumer), consumer.cancel, grace=STOP_TIMEOUT)

    async def _take(self, consumer: Consumer) -> None:
        async for delivery in consumer:
            await self._reap(delivery)

    async def _reap(self, delivery: Delivery) -> None:
        backoff = Backoff(self._retry_wait)
        while not delivery.lost:
            try:
                await self._try_to_reap(delivery)
                return
            except PublishError as error:
                _log.warning("reaping delayed", tries=backoff.failures, reason=str(error))
                self._metrics.retries.inc()
                await backoff.sleep()

    async def _try_to_reap(self, delivery: Delivery) -> None:
        try:
            job = _decode(delivery.body)
        except UndecodableMessage as error:
            await self._reap_undecodable(delivery, str(error))
            return
        code, message = FAILURES.get(delivery.death_reason, FAILURES[REJECTED])
        self._notify_gateway(_Address(job.id, job.reply_to), code, message, copy=job.copy_number)
        await self._bus.publish_settlement(_zero_usage(job, code))
        if delivery.death_reason == EXPIRED:  # load, not a defect
            delivery.ack()
        else:
            await self._bus.move_to_diagnosed(delivery, _diagnosis(delivery, code))
        self._count(job.id, code, delivery)

    async def _reap_undecodable(self, delivery: Delivery, error: str) -> None:
        """Notify the gateway if the message still has its address, and keep the message for inspection."""
        code, message = UNDECODABLE
        address = _address(delivery.body)
        if address is not None:
            self._notify_gateway(address, code, message)
        reason = str(delivery.headers.get(REASON_HEADER, error))
        await self._bus.move_to_diagnosed(delivery, Diagnosis(code, reason, deaths=1, by=REAPER))
        self._metrics.parked.labels(topology.DEAD_QUEUE).inc()
        self._count(address.id if address is not None else None, code, delivery)

    def _notify_gateway(self, address: _Address, code: FailureCode, message: str, *, copy: int = 0) -> None:
        if len(address.reply_to.encode()) > MAX_ROUTING_KEY:
            return  # not a valid reply inbox
        failed = Failed(
            job_id=address.id, attempt_id=attempt_id(address.id, copy), code=code, message=message, copy_number=copy
        )
        self._bus.send_window(address.reply_to, Window(worker_id=REAPER, replies=[failed]))

    def _count(self, job: str | None, code: FailureCode, delivery: Delivery) -> None:
        self._metrics.reaped.labels(code.value).inc()
        _log.warning("dead-lettered job closed", job=job, code=code.value, death=delivery.death_reason)


def _decode(body: bytes) -> Job:
    """Return a dead-lettered job; raise `UndecodableMessage` if its id can't be that of a job, nor of a message."""
    job = messages.JOBS.decode(body)
    if (reason := ids_error(job.id)) is not None:
        raise UndecodableMessage(reason)
    return job


def attempt_id(job: str, copy: int) -> str:
    """Return the attempt id under which the reaper closes a copy of a dead-lettered job, from job id and copy number.

    The id is deterministic, so that closing the copy again has no effect.
    """
    return str(uuid.uuid5(_ATTEMPTS, f"{job}/{copy}"))


def _diagnosis(delivery: Delivery, code: FailureCode) -> Diagnosis:
    """Describe a job dead-lettered by the broker, or by a worker that could not decode it."""
    if delivery.death_reason == RETURNED:
        deaths = topology.JOB_DELIVERY_LIMIT + 1
        return Diagnosis(code, f"given back to its queue {deaths} times, and never answered", deaths, REAPER)
    reason = str(delivery.headers.get(REASON_HEADER, "refused by a worker that could not say why"))
    return Diagnosis(code, reason, deaths=1, by=REAPER)


def _zero_usage(job: Job, code: FailureCode) -> UsageRecord:
    return UsageRecord(
        job=job.id,
        attempt=attempt_id(job.id, job.copy_number),
        tenant=job.tenant,
        model=job.model,
        worker=REAPER,
        outcome=Outcome.FAILED,
        usage=Usage(prompt_tokens=0),
        at=time.time(),
        error=code,
    )


def _address(body: bytes) -> _Address | None:
    try:
        return msgspec.json.decode(body, type=_Address)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
