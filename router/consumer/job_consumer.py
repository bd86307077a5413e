"""Job consumer: consumes the jobs of one model and ends each of them exactly once.

Always in this order: one terminal reply to the gateway, the usage record confirmed by the broker, and only then the
acknowledgement of the job (docs/design/queue-topology.md#acknowledgement). A `JobHandler` computes the answers.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from router import control_plane
from router.bus import Bus, Envelope, Feed, Inbound
from router.consumer.absences import Absences
from router.consumer.admission import Admission
from router.consumer.clocks import Clocks
from router.consumer.gathering import Gathering
from router.consumer.resumption import Resumptions
from router.consumer.taken_jobs import RecentJobs, TakenJob, TakenJobs
from router.consumer.windows import Outbox
from router.diagnosis import Diagnosis
from router.errors import BrokerUnavailable, PublishError
from router.messages import (
    AttemptReport,
    AttemptState,
    Cancel,
    Cancelled,
    Control,
    Drain,
    Failed,
    FailureCode,
    Finished,
    Job,
    Outcome,
    Ping,
    Resume,
    ResumeDecision,
    ServiceClass,
    Terminal,
    UsageRecord,
    WorkerState,
    WorkerStatus,
)
from router.transport.base import Delivery

T = TypeVar("T", bound=TakenJob)

HEARTBEAT = 1.0
"""Seconds between two heartbeats, and between two checks of the running jobs' deadlines."""
SETTLE_BACKOFF = (0.2, 5.0)
"""Delay between retries of publishing a usage record, in seconds: first and maximum."""

BUSY_SHARE = 0.5
"""Share of the slots in use from which usage records are published at once: waiting for a group would hold prefetch."""

SETTLE_PATIENCE = 5.0
"""Seconds to wait for the last confirms at shutdown; jobs not settled by then are redelivered to another worker."""

_OUTCOMES: dict[type[Terminal], Outcome] = {
    Finished: Outcome.FINISHED,
    Failed: Outcome.FAILED,
    Cancelled: Outcome.CANCELLED,
}

_log = structlog.get_logger(__name__)


class JobHandler(Protocol[T]):
    """Computes the answers to jobs. Called on the event loop; replies through the consumer's outbox."""

    def open(self, job: Job, delivery: Delivery) -> T:
        """Create a new attempt at a job."""

    async def begin(self, taken: T) -> None:
        """Queue an attempt for a slot; a job that can't be answered fails here."""

    def fail(self, taken: T, code: FailureCode, message: str) -> None:
        """Stop and end an attempt as failed; `message` is for the client. No effect if it has ended."""

    def cancel(self, taken: T) -> None:
        """Stop and end an attempt as cancelled: on request, or because its gateway died. No effect if it has ended."""

    def hand_back(self, taken: T) -> None:
        """Stop an attempt without a terminal reply: another worker will answer the job."""

    def admit(self) -> None:
        """Start waiting jobs in the free slots."""


class JobConsumer(Generic[T]):
    """Consumes the jobs of one model from a started bus. The handler must call `end` exactly once for each job."""

    def __init__(
        self,
        bus: Bus,
        *,
        worker: str,
        model: str,
        places: int,
        drain_grace: float,
        priority: int = 0,
        status: Callable[[WorkerState], WorkerStatus],
        hand_off: asyncio.Event | None = None,
    ) -> None:
        """`worker` is its id, `places` the number of slots; setting `hand_off` ends a drain at once.

        With a `priority` below 0 it gets only jobs for which other consumers of the model have no capacity.
        """
        self._bus = bus
        self._worker = worker
        self._model = model
        self._places = places
        self._drain_grace = drain_grace
        self._priority = priority
        self._status = status
        self.jobs: TakenJobs[T] = TakenJobs()
        self.admission: Admission[T] = Admission(places)
        self.outbox = Outbox(bus, worker, self._lost_gateway)
        self._resumptions = Resumptions(self.outbox)
        self.state = WorkerState.READY
        self._clocks = Clocks()
        self._settling = Gathering()
        self._cancelled = RecentJobs()
        self._done = RecentJobs()
        self._stop = asyncio.Event()
        self._idle = asyncio.Event()
        self._hand_off = hand_off or asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbounds: list[Inbound[Job]] = []

    async def open(self, handler: JobHandler[T]) -> None:
        """Declare the model's queues and start consuming; `serve` processes the deliveries.

        Raises:
            BrokerUnavailable: the queues can't be consumed.
        """
        self._handler = handler
        await self._bus.declare_model(self._model)
        absences = Absences(self._bus, self._worker, self._lost_gateway)
        self._bus.on_lost_gateway(absences.returned)
        targets = [control_plane.worker(self._worker), control_plane.model(self._model), control_plane.ALL]
        self._controls = await self._bus.controls(targets)
        self._inbounds = [
            await self._bus.jobs(self._model, each, prefetch=self._places, priority=self._priority)
            for each in ServiceClass
        ]
        _log.info("worker is ready", worker=self._worker, model=self._model)

    async def serve(self, stop: asyncio.Event) -> None:
        """Process jobs until `stop` is set or a `Drain` arrives, then drain."""
        async with asyncio.TaskGroup() as group:
            loops = [
                *(group.create_task(self._take_all(inbound)) for inbound in self._inbounds),
                group.create_task(self._obey(self._controls)),
                group.create_task(self._beat()),
            ]
            await self._wait_for(stop, self._stop)
            await self._drain()
            for loop in loops:
                loop.cancel()
        await self._controls.close()
        for task in self._tasks:
            task.cancel()

    def leave(self) -> None:
        """Make `serve` hand over all jobs and return, without waiting for running ones."""
        self._stop.set()
        self._hand_off.set()

    # Taking jobs

    async def _take_all(self, inbound: Inbound[Job]) -> None:
        async for envelope in inbound:
            self._take(envelope)

    def _take(self, envelope: Envelope[Job]) -> None:
        job, delivery = envelope.message, envelope.delivery
        if self.state is WorkerState.DRAINING:
            self._report(job.reply_to, job.id, "", AttemptState.HANDED_OVER)
            delivery.reject(requeue=True)
            return
        if job.id in self._done:
            delivery.ack()
            return
        current = self.jobs.job(job.id)
        if current is not None:
            self._adopt(current, envelope)
            return
        taken = self._handler.open(job, delivery)
        if not taken.again:
            self._clocks.hear(job)
        self.jobs.add(taken)
        self._idle.clear()
        if job.id in self._cancelled:
            self._handler.cancel(taken)
        elif not self._expired(taken):
            self._spawn(self._begin(taken), taken)

    async def _begin(self, taken: T) -> None:
        """Start a job; for one that may have been delivered before, as its gateway decides."""
        verdict = await self._resumptions.ask(taken) if taken.again else ResumeDecision.START
        if verdict is ResumeDecision.START:
            await self._handler.begin(taken)
        elif verdict is ResumeDecision.FAIL:
            self.give_up(taken, f"{taken.crashes} workers in a row died with it, none getting any further")
        elif verdict is not None:
            self._let_go(taken)

    def _adopt(self, current: T, envelope: Envelope[Job]) -> None:
        """Handle another delivery of a running job: adopt it if the first was lost or is an older copy."""
        held, current_copy = current.delivery, current.job.copy_number
        if held.lost or envelope.message.copy_number > current_copy:
            current.delivery = envelope.delivery
            current.job = msgspec.structs.replace(current.job, copy_number=envelope.message.copy_number)
            held.ack()
            current.log.info("new delivery of a running job adopted", copy=envelope.message.copy_number)
        else:
            envelope.delivery.ack()
            current.log.warning("duplicate of a running job dropped")

    def _expired(self, taken: T) -> bool:
        """Fail a job whose time is over: at `begin_by` if it was not started, else at its deadline."""
        begun = taken.again or self.admission.has_place(taken)
        until = taken.job.deadline if begun else taken.job.begin_by or taken.job.deadline
        if self._clocks.now(taken.job.reply_to) < until:
            return False
        self._handler.fail(taken, FailureCode.DEADLINE_EXCEEDED, "The request's deadline has passed.")
        return True

    # Ending jobs

    def give_up(self, taken: T, reason: str) -> None:
        """Fail a job that crashes its workers; `reason` is for the operator, in the diagnosed queue."""
        code = FailureCode.FAILED_REPEATEDLY
        taken.diagnosis = Diagnosis(code, reason, taken.crashes, self._worker)
        taken.log.error("job given up", reason=reason)
        self._handler.fail(taken, code, "This request has repeatedly brought down what tried to answer it.")

    def end(self, taken: T, terminal: Terminal) -> None:
        """Send a job's terminal reply, release its slot, and settle it."""
        taken.ended = True
        self.admission.leave(taken)
        self.outbox.put(taken.job.reply_to, terminal, urgent=True)
        outcome = _OUTCOMES[type(terminal)]
        code = terminal.code if isinstance(terminal, Failed) else None
        record = UsageRecord(
            job=taken.job.id,
            attempt=taken.attempt,
            tenant=taken.job.tenant,
            model=self._model,
            worker=self._worker,
            outcome=outcome,
            usage=taken.usage,
            at=time.time(),
            digest=taken.digest,
            error=code,
        )
        taken.log.info("job ended", outcome=str(outcome), error=code and str(code))
        self._spawn(self._settle(taken, record))

    async def _settle(self, taken: T, record: UsageRecord) -> None:
        if self.state is WorkerState.READY and len(self.jobs) < BUSY_SHARE * self._places:
            await self._settling.wait()
        delay, longest = SETTLE_BACKOFF
        while True:
            try:
                await self._bus.publish_settlement(record)
                if taken.diagnosis is not None:
                    await self._bus.keep_diagnosed(taken.delivery, taken.diagnosis)
                break
            except PublishError as error:
                taken.log.warning("usage record not confirmed, trying again", reason=str(error))
                await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - jitter, no secret
                delay = min(2 * delay, longest)
        if taken.delivery.lost and taken.attempt in self.outbox.sent:
            self._done.add(taken.job.id)
        if taken.diagnosis is None:
            taken.delivery.ack()
        self._forget(taken)

    def _forget(self, taken: T) -> None:
        self.jobs.remove(taken)
        if not len(self.jobs):
            self._idle.set()

    def _lost_gateway(self, gateway: str) -> None:
        lost = [taken for taken in self.jobs.of_gateway(gateway) if not taken.ended]
        if lost:
            _log.warning("gateway is gone, its jobs are cancelled", gateway=gateway, jobs=len(lost))
        for taken in lost:
            self._handler.cancel(taken)
            self.outbox.sent.forget(taken.attempt)  # if it reconnects and pings, another attempt resumes the job
        self.outbox.forget(gateway)

    # Control and heartbeat

    async def _obey(self, controls: Feed[Control]) -> None:
        async for control in controls:
            match control:
                case Cancel():
                    self._cancel(control)
                case Resume():
                    self._resumptions.hear(control)
                case Ping():
                    self._answer(control)
                case Drain():
                    self._stop.set()

    def _cancel(self, cancel: Cancel) -> None:
        taken = self.jobs.job(cancel.job)
        if not cancel.attempt:
            self._cancelled.add(cancel.job)
            if taken is not None:
                self._handler.cancel(taken)
        elif taken is not None and taken.attempt == cancel.attempt:
            self._let_go(taken)

    def _answer(self, ping: Ping) -> None:
        """Send missed replies again; if they are no longer stored, drop the attempt: another resumes the job."""
        taken = self.jobs.attempt(ping.attempt)
        unheard = taken is not None and ping.attempt not in self.outbox.sent
        said = unheard or self.outbox.put_again(ping.reply_to, ping.attempt, ping.have)
        if taken is not None and not said:
            self._let_go(taken)
        state = AttemptState.ALIVE if said else AttemptState.LOST
        self._report(ping.reply_to, ping.job, ping.attempt, state)

    def _report(self, gateway: str, job: str, attempt: str, state: AttemptState, *, crashes: int = 0) -> None:
        self.outbox.put(
            gateway, AttemptReport(job_id=job, attempt_id=attempt, state=state, crashes=crashes), urgent=True
        )

    async def _beat(self) -> None:
        while True:
            self._send_status()
            for taken in self.jobs:
                if not taken.ended:
                    self._expired(taken)
            await asyncio.sleep(HEARTBEAT)

    def _send_status(self) -> None:
        with suppress(BrokerUnavailable):
            self._bus.send_status(self._status(self.state))

    # Leaving

    async def _drain(self) -> None:
        """Stop consuming, requeue jobs without a slot, and give running ones `drain_grace` seconds
        (docs/design/reliability-contract.md#F2)."""
        self.state = WorkerState.DRAINING
        self._settling.end()
        self._send_status()
        _log.info("worker is draining", worker=self._worker, running=len(self.jobs))
        for inbound in self._inbounds:
            await inbound.cancel()
        self.outbox.flush()  # so that as few tokens as possible are generated again
        for taken in self.jobs:
            if not self.admission.has_place(taken):
                self._hand_back(taken)
        if len(self.jobs):
            await self._wait_for(self._idle, self._hand_off, at_most=self._drain_grace)
        for taken in self.jobs:
            self._hand_back(taken)
        self.outbox.flush()
        if len(self.jobs):  # ended, but not settled yet
            await self._wait_for(self._idle, at_most=SETTLE_PATIENCE)

    def _hand_back(self, taken: T) -> None:
        """Requeue a job, so that another worker answers or resumes it."""
        if taken.ended:  # its usage record is on its way
            return
        self._drop(taken)
        self._report(taken.job.reply_to, taken.job.id, taken.attempt, AttemptState.HANDED_OVER, crashes=taken.crashes)
        taken.delivery.reject(requeue=True)
        taken.log.info("job handed back to the queue")

    def _let_go(self, taken: T) -> None:
        """Drop an attempt without terminal reply or usage record: another one answers, or the job has ended."""
        if taken.ended:
            return
        self._drop(taken)
        taken.delivery.ack()
        taken.log.info("attempt dropped")
        self._handler.admit()

    def _drop(self, taken: T) -> None:
        taken.ended = True
        self._handler.hand_back(taken)
        self.admission.leave(taken)
        self.outbox.sent.forget(taken.attempt)
        self._forget(taken)

    # Tasks

    def _spawn(self, work: Coroutine[Any, Any, None], taken: T | None = None) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled() or (error := task.exception()) is None:
                return
            _log.error("task of a job failed", exc_info=error)
            if taken is not None:
                self._handler.fail(taken, FailureCode.ENGINE_ERROR, "The worker failed on this request.")

        task.add_done_callback(done)

    async def _wait_for(self, *events: asyncio.Event, at_most: float | None = None) -> None:
        """Return when one of `events` is set, or after `at_most` seconds."""
        waits = [asyncio.create_task(event.wait()) for event in events]
        await asyncio.wait(waits, timeout=at_most, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
