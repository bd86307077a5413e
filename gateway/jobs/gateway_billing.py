"""Bills a gateway's jobs: holds credit before a job, stores checkpoints during it, publishes receipts and voids after.

A request waits only for its hold, and not for long: while the store keeps failing, requests are refused at once
(docs/design/reliability-contract.md#F15). Receipts go through the broker, all else to the store; failed writes are
retried while the gateway runs. No job is queued without broker and store, which bounds what can be waiting.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError, StoreUnavailable
from auth_billing.money.billing import Billing
from auth_billing.money.holds import HoldRequest
from gateway.admission.controller import AdmittedRequest
from gateway.jobs.job_billing import RequestBilling
from gateway.jobs.keyed_billing import KeyedBilling
from gateway.jobs.retry_queue import RetryQueue
from gateway.metrics import GatewayMetrics
from router.bus import Bus
from router.errors import PublishError
from router.messages import Job, Receipt
from router.timings import Timings
from router.usage_bound import max_parts, max_usage
from runtime.circuit_breaker import CircuitBreaker

STORE_PAUSE = 3.0
"""Seconds for which a store that keeps failing is not called."""
MAX_RESERVING = 2000
"""Maximum number of requests that wait for a hold at the same time; more are refused. It is a key's default limit of
requests that begin at once."""
MAX_UNPUBLISHED_RECEIPTS = 20_000
"""Number of unpublished receipts from which new requests are refused."""
CHECKPOINT_INTERVAL = 2.0
"""Seconds between two checkpoints."""
MIN_CHECKPOINT_INTERVAL = 0.2
"""Seconds between two checkpoints when tokens arrive fast."""
FLUSH_TIMEOUT = 5.0
"""Seconds to publish what is left at shutdown; the sweeper settles the rest from the store."""

_log = structlog.get_logger(__name__)


class _UnpublishedReceipt(NamedTuple):
    """A receipt, and the event to set when the broker has confirmed it."""

    receipt: Receipt
    confirmed: asyncio.Event


class GatewayBilling:
    """Billing of one gateway process: holds, checkpoints, receipts, voids. `run` must run while requests are served."""

    def __init__(self, billing: Billing, bus: Bus, gateway_id: str, metrics: GatewayMetrics, timings: Timings) -> None:
        self.gateway = f"{gateway_id}-{secrets.token_hex(4)}"
        """Unique id of this gateway process: jobs of an earlier process with the same gateway id are orphans."""
        self._billing = billing
        self._bus = bus
        self._metrics = metrics
        self._timings = timings
        self._breaker = CircuitBreaker(open_seconds=STORE_PAUSE)
        self._reserving = 0
        self._requests: set[RequestBilling] = set()
        self._early_receipts = RetryQueue(self._await_jobs)
        """Receipts of jobs whose documents are not written yet."""
        self._receipts = RetryQueue(self._publish)
        self._voids = RetryQueue(self._void)
        self._checkpoint_due = asyncio.Event()

    def open(
        self, admitted: AdmittedRequest, jobs: Sequence[Job], *, streamed: bool, keyed: KeyedBilling | None = None
    ) -> RequestBilling:
        """Create the billing of one request's `jobs`, with `keyed` if it has an idempotency key.

        No credit is held yet.
        """
        model = admitted.model
        holds = [
            HoldRequest(
                job=job.id,
                model=job.model,
                service_class=job.service_class,
                gateway=self.gateway,
                deadline=job.deadline,
                max_usage=max_usage(job, model.longest_model_len, model.prompt_bounds),
                max_parts=max_parts(job, model),
                idempotency="" if keyed is None else keyed.record_id,
            )
            for job in jobs
        ]
        return RequestBilling(self, admitted.principal, holds, streamed=streamed, keyed=keyed)

    # The port of `RequestBilling`

    async def reserve(self, principal: Principal, holds: Sequence[HoldRequest]) -> None:
        """Hold credit in the store for the most that the jobs of `holds` may cost, all or none.

        Raises:
            AccountError: the account can't pay.
            StoreUnavailable: it is not known whether the credit was held, or the store has failed shortly before.
        """
        backed_up = self._reserving >= MAX_RESERVING or self._unpublished >= MAX_UNPUBLISHED_RECEIPTS
        if self._breaker.is_open or backed_up:
            self._metrics.holds.labels("refused_unasked").inc()
            raise StoreUnavailable("holds are backed up or have failed lately")
        began, outcome = time.monotonic(), "left"
        self._reserving += 1
        self._breaker.begin_request()
        try:
            async with asyncio.timeout(self._timings.reserve_timeout):
                await self._billing.reserve(principal, holds)
            outcome = "held"
        except (TimeoutError, StoreUnavailable) as error:
            outcome = "unavailable"
            raise StoreUnavailable(str(error) or "no hold in time") from error
        except AccountError as error:
            outcome = type(error).__name__
            raise
        finally:
            self._reserving -= 1
            self._update_breaker(outcome)
            self._metrics.holds.labels(outcome).inc()
            self._metrics.hold_seconds.observe(time.monotonic() - began)

    async def flush_jobs(self, jobs: Collection[str]) -> None:
        """Wait until the holds and documents of the jobs with these ids are stored, so that they can be settled.

        Raises:
            StoreUnavailable: some may be unwritten; repeat the call.
        """
        await self._billing.flush_jobs(jobs)

    def submit_receipt(self, receipt: Receipt) -> asyncio.Event:
        """Publish one receipt, which settles its job, in the background; retry until the broker confirms it.

        Return an event that is set when the broker has confirmed the receipt, which waits for its job's document.
        """
        unpublished = _UnpublishedReceipt(receipt, asyncio.Event())
        queue = self._receipts if self._billing.is_written(receipt.job) else self._early_receipts
        queue.add([unpublished])
        self._metrics.receipts_waiting.set(self._unpublished)
        return unpublished.confirmed

    def void(self, jobs: Sequence[str]) -> None:
        """Release the credit holds of `jobs` (ids), which were never queued, in the background.

        Retry until the store has.
        """
        self._voids.add(jobs)

    def started(self, request: RequestBilling) -> None:
        """Include a request in the checkpoints that store delivered usage, from now on."""
        self._requests.add(request)

    def ended(self, request: RequestBilling) -> None:
        """Exclude a request, which has ended, from the checkpoints that store delivered usage."""
        self._requests.discard(request)

    def checkpoint_soon(self) -> None:
        """Have `run` write the next checkpoint as soon as `MIN_CHECKPOINT_INTERVAL` after the last one."""
        self._checkpoint_due.set()

    # Background tasks

    async def run(self) -> None:
        """Write heartbeats and checkpoints to the store, publish receipts and release holds, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_heartbeats())
            group.create_task(self._checkpoint())
            group.create_task(self._early_receipts.run())
            group.create_task(self._receipts.run())
            group.create_task(self._voids.run())

    async def flush(self) -> None:
        """Wait at shutdown, for a bounded time, until receipts are published and holds released; free credit leases."""
        voids = asyncio.create_task(self._voids.wait_until_empty(FLUSH_TIMEOUT))
        done = await self._early_receipts.wait_until_empty(FLUSH_TIMEOUT)
        done = await self._receipts.wait_until_empty(FLUSH_TIMEOUT) and done
        if not (await voids and done):
            _log.error("receipts or voids left at shutdown", receipts=self._unpublished, voids=len(self._voids))
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT):
                await self._billing.release_leases()
        except (TimeoutError, StoreUnavailable) as error:
            _log.warning("leases not released, the sweeper will do it", reason=str(error))

    @property
    def _unpublished(self) -> int:
        """Number of receipts that the broker has not confirmed."""
        return len(self._early_receipts) + len(self._receipts)

    def _update_breaker(self, outcome: str) -> None:
        if outcome == "unavailable":
            self._breaker.record_failure()
        elif outcome == "left":
            self._breaker.record_cancellation()
        else:
            self._breaker.record_success()

    async def _send_heartbeats(self) -> None:
        while True:
            try:
                await self._billing.record_heartbeat(self.gateway)
            except StoreUnavailable as error:
                _log.warning("gateway heartbeat not recorded", reason=str(error))
            await asyncio.sleep(self._timings.gateway_heartbeat_interval)

    async def _checkpoint(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECKPOINT_INTERVAL):
                    await self._checkpoint_due.wait()
            self._checkpoint_due.clear()
            usage = {job: used for request in self._requests for job, used in request.unsaved_usage().items()}
            if usage:
                try:
                    await self._billing.checkpoint(usage)
                except StoreUnavailable as error:
                    _log.warning("checkpoint not written", reason=str(error))
                else:
                    for request in self._requests:
                        request.checkpointed(usage)
            await asyncio.sleep(MIN_CHECKPOINT_INTERVAL)

    async def _await_jobs(self, early: Sequence[_UnpublishedReceipt]) -> Sequence[_UnpublishedReceipt]:
        try:
            await self._billing.flush_jobs([each.receipt.job for each in early])
        except StoreUnavailable as error:
            _log.warning("receipts wait for their jobs' documents", receipts=len(early), reason=str(error))
            return early
        self._receipts.add(early)
        return ()

    async def _publish(self, batch: Sequence[_UnpublishedReceipt]) -> Sequence[_UnpublishedReceipt]:
        results = await asyncio.gather(
            *(self._bus.publish_settlement(each.receipt) for each in batch), return_exceptions=True
        )
        left = []
        for each, result in zip(batch, results, strict=True):
            if isinstance(result, PublishError):
                left.append(each)
            elif isinstance(result, BaseException):
                raise result
            else:
                each.confirmed.set()
        if left:
            _log.warning("receipts not published, retrying", receipts=len(left))
        self._metrics.receipts_waiting.set(self._unpublished - len(batch) + len(left))
        return left

    async def _void(self, jobs: Sequence[str]) -> Sequence[str]:
        try:
            await self._billing.void(jobs)
        except StoreUnavailable as error:
            _log.warning("holds not released, retrying", jobs=len(jobs), reason=str(error))
            return jobs
        return ()
