"""Closes jobs that died in their queue: expired, returned too often, or rejected. Their callers are told, exactly once.

The broker moves such a job to the dead queue; here its gateway gets the terminal message that no worker will send, and
a usage record with nothing used goes to settlement. One that did not just expire is kept for people with its diagnosis
(docs/dead-letters.md). Everything is sent before the dead job is acknowledged and under an attempt id that follows from
the job, so that a crash in between repeats messages and changes nothing.

No worker has this attempt: a gateway must take a `Failed` of an attempt that it has not bound.
"""

from __future__ import annotations

import asyncio
import time
import uuid

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from auth_billing.consuming import consume_until
from auth_billing.metrics import BillingMetrics
from auth_billing.retry import RetryDelay, exponential_delay
from router import messages, topology
from router.bus import Bus
from router.diagnosis import REASON_HEADER, Diagnosis
from router.errors import PublishError, UndecodableMessage
from router.messages import REAPER, Failed, FailureCode, Job, Outcome, Usage, UsageRecord, Window
from router.transport.base import Consumer, Delivery

PREFETCH = 32
STOP_SECONDS = 5.0
MAX_ROUTING_KEY = 255
"""Bytes (AMQP 0-9-1, short string)."""

_ATTEMPTS = uuid.UUID("5f0c9d0e-8a53-4b0e-9d0a-6f3d3c1b7a42")
"""Namespace of the attempt ids made here."""

EXPIRED, RETURNED, REJECTED = "expired", "delivery_limit", "rejected"
VERDICTS: dict[str | None, tuple[FailureCode, str]] = {
    EXPIRED: (FailureCode.DEADLINE_EXCEEDED, "The request's deadline passed before a worker took it."),
    RETURNED: (FailureCode.FAILED_REPEATEDLY, "The request failed repeatedly and was given up."),
    REJECTED: (FailureCode.ENGINE_ERROR, "The request could not be processed."),
}
"""What the caller is told, by the broker's reason."""
UNDECODABLE = (FailureCode.UNDECODABLE, "The request could not be read by a worker.")

_log = structlog.get_logger(__name__)


class _Address(msgspec.Struct, frozen=True):
    """What is needed to answer a job that is otherwise unreadable (another version's, say)."""

    id: str
    reply_to: str


class Reaper:
    """Takes dead jobs from the bus and closes them."""

    def __init__(
        self, bus: Bus, *, metrics: BillingMetrics | None = None, retry_delay: RetryDelay = exponential_delay
    ) -> None:
        self._bus = bus
        self._metrics = metrics or BillingMetrics(CollectorRegistry())
        self._retry_delay = retry_delay

    async def run(self, stop: asyncio.Event) -> None:
        """Close dead jobs until `stop`, one after the other; they are few.

        Raises:
            BrokerUnavailable: the broker could not be asked for dead jobs.
        """
        consumer = await self._bus.dead_jobs(prefetch=PREFETCH)

        await consume_until(stop, self._take(consumer), consumer.cancel, grace=STOP_SECONDS)

    async def _take(self, consumer: Consumer) -> None:
        async for delivery in consumer:
            await self._reap(delivery)

    async def _reap(self, delivery: Delivery) -> None:
        tries = 0
        while not delivery.lost:
            try:
                await self._try_to_reap(delivery)
                return
            except PublishError as error:
                _log.warning("reaping delayed", tries=tries, reason=str(error))
                self._metrics.retries.inc()
                await asyncio.sleep(self._retry_delay(tries))
                tries += 1

    async def _try_to_reap(self, delivery: Delivery) -> None:
        try:
            job = messages.JOBS.decode(delivery.body)
        except UndecodableMessage as error:
            await self._put_aside(delivery, str(error))
            return
        code, message = VERDICTS.get(delivery.death_reason, VERDICTS[REJECTED])
        self._tell(_Address(job.id, job.reply_to), code, message, copy=max(0, job.attempt))
        await self._bus.publish_settlement(_nothing_used(job, code))
        if delivery.death_reason == EXPIRED:  # load, not a defect
            delivery.ack()
        else:
            await self._bus.keep_diagnosed(delivery, _diagnosis(delivery, code))
        self._count(job.id, code, delivery)

    async def _put_aside(self, delivery: Delivery, error: str) -> None:
        """Tell whoever can be told, and keep the message for people."""
        code, message = UNDECODABLE
        address = _address(delivery.body)
        if address is not None:
            self._tell(address, code, message)
        reason = str(delivery.headers.get(REASON_HEADER, error))
        await self._bus.keep_diagnosed(delivery, Diagnosis(code, reason, deaths=1, by=REAPER))
        self._metrics.parked.labels(topology.DEAD_QUEUE).inc()
        self._count(address.id if address is not None else None, code, delivery)

    def _tell(self, address: _Address, code: FailureCode, message: str, *, copy: int = 0) -> None:
        if len(address.reply_to.encode()) > MAX_ROUTING_KEY:
            return  # no gateway has such a name
        failed = Failed(j=address.id, a=attempt_id(address.id, copy), code=code, message=message, copy=copy)
        self._bus.send_window(address.reply_to, Window(w=REAPER, b=[failed]))

    def _count(self, job: str | None, code: FailureCode, delivery: Delivery) -> None:
        self._metrics.reaped.labels(code.value).inc()
        _log.warning("dead job closed", job=job, code=code.value, death=delivery.death_reason)


def attempt_id(job: str, copy: int) -> str:
    """The reaper's attempt at a copy of a job: always the same, so that doing it twice is doing it once."""
    return str(uuid.uuid5(_ATTEMPTS, f"{job}/{copy}"))


def _diagnosis(delivery: Delivery, code: FailureCode) -> Diagnosis:
    """What is known of a job that was dead-lettered by the broker, or by a worker that could not read it."""
    if delivery.death_reason == RETURNED:
        deaths = topology.JOB_DELIVERY_LIMIT + 1
        return Diagnosis(code, f"given back to its queue {deaths} times, and never answered", deaths, REAPER)
    reason = str(delivery.headers.get(REASON_HEADER, "refused by a worker that could not say why"))
    return Diagnosis(code, reason, deaths=1, by=REAPER)


def _nothing_used(job: Job, code: FailureCode) -> UsageRecord:
    return UsageRecord(
        job=job.id,
        attempt=attempt_id(job.id, max(0, job.attempt)),
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
