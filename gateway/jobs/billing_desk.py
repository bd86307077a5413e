"""Where the requests of one gateway meet the books: holds before, checkpoints meanwhile, receipts and voids after.

Only a hold is waited for, and never long: where the store keeps failing, requests are refused at once
(docs/design/reliability-contract.md#F15).
Receipts go through the broker, everything else straight to the store; what does not get through is tried again for as
long as the gateway runs. As nothing is queued without broker and store, what waits is bounded by what was running.
Does not know prices or HTTP.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress

import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError, StoreUnavailable
from auth_billing.money.billing import Billing
from auth_billing.money.holds import HoldRequest
from gateway.admission.controller import AdmittedRequest
from gateway.jobs.backlog import Backlog
from gateway.jobs.billed_jobs import BilledJobs
from gateway.metrics import GatewayMetrics
from router.bus import Bus
from router.errors import PublishError
from router.messages import Job, Receipt
from router.usage_bound import max_usage
from runtime.circuit_breaker import CircuitBreaker

RESERVE_SECONDS = 2.5
"""Longest that a request waits for its hold."""
STORE_REST_SECONDS = 3.0
"""That a store which keeps failing is left alone."""
MOST_RESERVING = 256
"""Requests that wait for a hold at one time; more are refused."""
MOST_WAITING = 20_000
"""Receipts that have not been published; with more nothing new is taken on."""
CHECKPOINT_SECONDS = 2.0
SHORTEST_PAUSE = 0.2
"""Seconds between two checkpoints, however fast tokens come."""
LEASE_SECONDS = 5.0
"""Between two renewals; who has not renewed for 30 s counts as dead."""
FLUSH_SECONDS = 5.0
"""What is left then is settled by what the store knows."""

_log = structlog.get_logger(__name__)


class BillingDesk:
    """One per gateway process; `run` it from before the first request until after the last."""

    def __init__(self, billing: Billing, bus: Bus, gateway_id: str, metrics: GatewayMetrics) -> None:
        self.gateway = f"{gateway_id}-{secrets.token_hex(4)}"
        """This life of the gateway: the jobs of an earlier one are nobody's, though it had the same name."""
        self._billing = billing
        self._bus = bus
        self._metrics = metrics
        self._breaker = CircuitBreaker(rest=STORE_REST_SECONDS)
        self._reserving = 0
        self._running: set[BilledJobs] = set()
        self._receipts = Backlog(self._publish)
        self._voids = Backlog(self._give_back)
        self._checkpoint_due = asyncio.Event()

    def open(self, reservation: AdmittedRequest, jobs: Sequence[Job], *, streamed: bool) -> BilledJobs:
        """The books of a request's jobs; nothing is held yet."""
        model = reservation.model
        works = [
            HoldRequest(
                job=job.id,
                model=job.model,
                service_class=job.service_class,
                gateway=self.gateway,
                deadline=job.deadline,
                max_usage=max_usage(job, model.longest_model_len, model.prompt_bounds),
            )
            for job in jobs
        ]
        return BilledJobs(self, reservation.principal, works, streamed=streamed)

    # For `BilledJobs`

    async def reserve(self, principal: Principal, works: Sequence[HoldRequest]) -> None:
        """See `billed_jobs.Desk`."""
        if self._breaker.open or self._reserving >= MOST_RESERVING or len(self._receipts) >= MOST_WAITING:
            self._metrics.holds.labels("refused_unasked").inc()
            raise StoreUnavailable("the books can't keep up, or have failed lately")
        began, outcome = time.monotonic(), "left"
        self._reserving += 1
        self._breaker.enter()
        try:
            async with asyncio.timeout(RESERVE_SECONDS):
                await self._billing.reserve(principal, works)
            outcome = "held"
        except (TimeoutError, StoreUnavailable) as error:
            outcome = "unavailable"
            raise StoreUnavailable(str(error) or "no hold in time") from error
        except AccountError as error:
            outcome = type(error).__name__
            raise
        finally:
            self._reserving -= 1
            self._tell_breaker(outcome)
            self._metrics.holds.labels(outcome).inc()
            self._metrics.hold_seconds.observe(time.monotonic() - began)

    def hand_in(self, receipt: Receipt) -> None:
        """See `billed_jobs.Desk`."""
        self._receipts.add([receipt])
        self._metrics.receipts_waiting.set(len(self._receipts))

    def void(self, jobs: Sequence[str]) -> None:
        """See `billed_jobs.Desk`."""
        self._voids.add(jobs)

    def running(self, jobs: BilledJobs) -> None:
        """See `billed_jobs.Desk`."""
        self._running.add(jobs)

    def ended(self, jobs: BilledJobs) -> None:
        """See `billed_jobs.Desk`."""
        self._running.discard(jobs)

    def checkpoint_soon(self) -> None:
        """See `billed_jobs.Desk`."""
        self._checkpoint_due.set()

    # The gateway's own

    async def run(self) -> None:
        """Renew the lease, write checkpoints, hand in and give back, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew())
            group.create_task(self._checkpoint())
            group.create_task(self._receipts.run())
            group.create_task(self._voids.run())

    async def flush(self) -> None:
        """Wait until all receipts are published and all voids done, but not for ever. No request runs any more."""
        done = await asyncio.gather(self._receipts.emptied(FLUSH_SECONDS), self._voids.emptied(FLUSH_SECONDS))
        if not all(done):
            _log.error("not all is settled", receipts=len(self._receipts), voids=len(self._voids))
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._billing.release_leases()
        except (TimeoutError, StoreUnavailable) as error:
            _log.warning("leases not given back: the sweeper does it", reason=str(error))

    def _tell_breaker(self, outcome: str) -> None:
        if outcome == "unavailable":
            self._breaker.failed()
        elif outcome == "left":
            self._breaker.left()
        else:
            self._breaker.succeeded()

    async def _renew(self) -> None:
        while True:
            try:
                await self._billing.record_heartbeat(self.gateway)
            except StoreUnavailable as error:
                _log.warning("lease not renewed", reason=str(error))
            await asyncio.sleep(LEASE_SECONDS)

    async def _checkpoint(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECKPOINT_SECONDS):
                    await self._checkpoint_due.wait()
            self._checkpoint_due.clear()
            usage = {job: used for jobs in self._running for job, used in jobs.unknown_usage().items()}
            if usage:
                try:
                    await self._billing.checkpoint(usage)
                except StoreUnavailable as error:
                    _log.warning("checkpoint not written", reason=str(error))
                else:
                    for jobs in self._running:
                        jobs.checkpointed(usage)
            await asyncio.sleep(SHORTEST_PAUSE)

    async def _publish(self, receipts: Sequence[Receipt]) -> Sequence[Receipt]:
        try:
            await self._billing.flush_jobs([receipt.job for receipt in receipts])
        except StoreUnavailable as error:
            _log.warning("receipts wait for their jobs to be written", receipts=len(receipts), reason=str(error))
            return receipts
        results = await asyncio.gather(
            *(self._bus.publish_settlement(receipt) for receipt in receipts), return_exceptions=True
        )
        left = []
        for receipt, result in zip(receipts, results, strict=True):
            if isinstance(result, PublishError):
                left.append(receipt)
            elif isinstance(result, BaseException):
                raise result
        if left:
            _log.warning("receipts not published, trying again", receipts=len(left))
        self._metrics.receipts_waiting.set(len(self._receipts) - len(receipts) + len(left))
        return left

    async def _give_back(self, jobs: Sequence[str]) -> Sequence[str]:
        try:
            await self._billing.void(jobs)
        except StoreUnavailable as error:
            _log.warning("holds not given back, trying again", jobs=len(jobs), reason=str(error))
            return jobs
        return ()
