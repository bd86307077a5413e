"""Consumes the job queues of one model for a worker: starts, resumes, ends and settles each job exactly once.

Always in this order: one terminal reply to the gateway, the usage record confirmed by the broker, and only then the
acknowledgement of the job (docs/design/queue-topology.md#acknowledgement). A `JobHandler` computes the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from router import control_targets
from router.bus import Bus, Envelope, TypedConsumer, TypedSubscription
from router.consumer.admission import Admission
from router.consumer.attempts import Attempt, AttemptTable, RecentJobIds
from router.consumer.gateway_clocks import GatewayClocks
from router.consumer.gateway_liveness import GatewayLiveness
from router.consumer.group_commit import GroupCommit
from router.consumer.job_handler import JobHandler
from router.consumer.reply_outbox import ReplyOutbox
from router.consumer.resume_requests import ResumeRequests
from router.diagnosis import Diagnosis
from router.errors import BrokerUnavailable, PublishError
from router.messages import (
    AttemptReport,
    AttemptState,
    Cancel,
    Control,
    Drain,
    FailureCode,
    Job,
    Ping,
    Resume,
    ResumeDecision,
    ServiceClass,
    Terminal,
    UsageRecord,
    WorkerState,
    WorkerStatus,
)
from router.timings import DEFAULT_TIMINGS, Timings
from runtime.retry import Backoff, delay_after, exponential_backoff

T = TypeVar("T", bound=Attempt)

SETTLE_WAIT = exponential_backoff(first=0.2, longest=5.0)
"""Delays between retries of publishing a usage record."""
RETURN_WAIT = exponential_backoff(first=0.1, longest=5.0)
"""Delay before a job that only another worker can continue returns to its queue."""
BUSY_SHARE = 0.5
"""Share of the slots in use from which usage records are published at once: waiting for a group would hold prefetch."""

_log = structlog.get_logger(__name__)


class JobConsumer(Generic[T]):
    """Consumes the jobs of one model from a started bus. The handler must call `end` exactly once for each job."""

    def __init__(
        self,
        bus: Bus,
        *,
        worker: str,
        model: str,
        slots: int,
        drain_grace: float,
        priority: int = 0,
        status: Callable[[WorkerState], WorkerStatus],
        hand_over: asyncio.Event | None = None,
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        """`worker` is its id, `slots` the number of slots; setting `hand_over` ends a drain at once.

        With a `priority` below 0 it gets only jobs for which other consumers of the model have no capacity.
        """
        self._bus = bus
        self._worker = worker
        self._model = model
        self._slots = slots
        self._drain_grace = drain_grace
        self._priority = priority
        self._status = status
        self._timings = timings
        self.attempts: AttemptTable[T] = AttemptTable()
        self.admission: Admission[T] = Admission(slots)
        self.outbox = ReplyOutbox(bus, worker, self._handle_dead_gateway)
        self._resume_requests = ResumeRequests(self.outbox, timings.resume_request_interval)
        self.state = WorkerState.STARTING
        self.clocks = GatewayClocks()
        self._settling = GroupCommit()
        self._cancelled = RecentJobIds()
        self._done = RecentJobIds()
        self._stop_requested = asyncio.Event()
        self._idle = asyncio.Event()
        self._hand_over_now = hand_over or asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._consumers: list[TypedConsumer[Job]] = []

    async def open(self, handler: JobHandler[T]) -> None:
        """Declare the job queues of the model and start consuming them; `serve` processes the deliveries.

        Raises:
            BrokerUnavailable: the queues can't be consumed.
        """
        self._handler = handler
        await self._bus.declare_model(self._model)
        liveness = GatewayLiveness(self._bus, self._worker, self._handle_dead_gateway, self._timings)
        self._bus.on_gateway_unreachable(liveness.handle_returned_window)
        targets = [control_targets.worker(self._worker), control_targets.model(self._model), control_targets.ALL]
        self._controls = await self._bus.controls(targets)
        self._consumers = [
            await self._bus.jobs(self._model, each, prefetch=self._slots, priority=self._priority)
            for each in ServiceClass
        ]
        self.state = WorkerState.READY
        _log.info("worker is ready", worker=self._worker, model=self._model)

    async def serve(self, stop: asyncio.Event) -> None:
        """Pass delivered jobs to the handler until `stop` is set or a `Drain` message arrives, then drain."""
        async with asyncio.TaskGroup() as group:
            loops = [
                *(group.create_task(self._consume(consumer)) for consumer in self._consumers),
                group.create_task(self._handle_controls(self._controls)),
                group.create_task(self.send_heartbeats()),
            ]
            await self._wait_for(stop, self._stop_requested)
            await self._drain()
            for loop in loops:
                loop.cancel()
        await self._controls.close()
        for task in self._tasks:
            task.cancel()

    def hand_over_all(self) -> None:
        """Make `serve` requeue all jobs for other workers and return now, without finishing the running ones."""
        self._stop_requested.set()
        self._hand_over_now.set()

    # Receiving jobs

    async def _consume(self, consumer: TypedConsumer[Job]) -> None:
        async for envelope in consumer:
            self._receive(envelope)

    def _receive(self, envelope: Envelope[Job]) -> None:
        job, delivery = envelope.message, envelope.delivery
        if self.state is WorkerState.DRAINING:
            self._report(job.reply_to, job.id, "", AttemptState.HANDED_OVER)
            delivery.reject(requeue=True)
            return
        if job in self._done:
            delivery.ack()
            return
        current = self.attempts.of_job(job.id, job.reply_to)
        if current is not None:
            self._adopt(current, envelope)
            return
        attempt = self._handler.open(job, delivery)
        if not attempt.may_resume:
            self.clocks.observe(job)
        self.attempts.add(attempt)
        self._idle.clear()
        if job in self._cancelled:
            self._handler.cancel(attempt)
        elif not self._expired(attempt):
            self.spawn(self._begin(attempt), attempt)

    async def _begin(self, attempt: T) -> None:
        """Start a job; for one that may have been delivered before, as its gateway decides."""
        if attempt.may_resume:
            if (resume := await self.permission_to_run(attempt)) is None:
                return
            attempt.continue_after(resume)
        await self._handler.begin(attempt)

    async def permission_to_run(self, attempt: T) -> Resume | None:
        """Ask a job's gateway whether to run a job that may have run before; `None`: no, and the attempt was ended."""
        response = await self._resume_requests.response_to(attempt)
        if response is None or response.decision is ResumeDecision.START:
            return response
        if response.decision is ResumeDecision.RETURN:
            await self._return_to_queue(attempt)
        elif response.decision is ResumeDecision.FAIL:
            self.fail_permanently(attempt, f"it crashed {attempt.crashes} workers in a row without progress")
        else:
            self._drop(attempt)
        return None

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

    def _expired(self, attempt: T) -> bool:
        """Fail a job whose time is over: at `begin_by` if it was not started, else at its deadline."""
        begun = attempt.may_resume or attempt.crashes > 0 or self.admission.has_slot(attempt)
        until = attempt.job.deadline if begun else attempt.job.begin_by or attempt.job.deadline
        if self.clocks.now(attempt.job.reply_to) < until:
            return False
        self._handler.fail(attempt, FailureCode.DEADLINE_EXCEEDED, "The request's deadline has passed.")
        return True

    # Ending jobs

    def fail_permanently(self, attempt: T, reason: str) -> None:
        """Fail one job that crashes its workers, and move it to the diagnosed queue with `reason`, for the operator."""
        code = FailureCode.FAILED_REPEATEDLY
        attempt.diagnosis = Diagnosis(code, reason, attempt.crashes, self._worker)
        attempt.log.error("job failed permanently", reason=reason)
        self._handler.fail(attempt, code, "This request has repeatedly brought down what tried to answer it.")

    def end(self, attempt: T, terminal: Terminal) -> None:
        """End an attempt: free its slot, send the reply `terminal`, publish its usage record, acknowledge the job."""
        attempt.ended = True
        self.admission.release(attempt)
        self.outbox.put(attempt.job.reply_to, terminal, urgent=True)
        record = attempt.usage_record(terminal, self._worker)
        attempt.log.info("job ended", outcome=str(record.outcome), error=record.error and str(record.error))
        self.spawn(self._settle(attempt, record))

    async def _settle(self, attempt: T, record: UsageRecord) -> None:
        if self.state is WorkerState.READY and len(self.attempts) < BUSY_SHARE * self._slots:
            await self._settling.wait()
        backoff = Backoff(SETTLE_WAIT)
        while True:
            try:
                await self._bus.publish_settlement(record)
                if attempt.diagnosis is not None:
                    await self._bus.move_to_diagnosed(attempt.delivery, attempt.diagnosis)
                break
            except PublishError as error:
                attempt.log.warning("usage record not confirmed, retrying", reason=str(error))
                await backoff.sleep()
        if attempt.delivery.lost and attempt.attempt_id in self.outbox.replay_buffer:
            self._done.add(attempt.job.id, attempt.job.reply_to)
        if attempt.diagnosis is None:
            attempt.delivery.ack()
        self._remove(attempt)

    def _remove(self, attempt: T) -> None:
        self.attempts.remove(attempt)
        if not len(self.attempts):
            self._idle.set()

    def _handle_dead_gateway(self, gateway: str) -> None:
        lost = [attempt for attempt in self.attempts.of_gateway(gateway) if not attempt.ended]
        if lost:
            _log.warning("gateway is gone, its jobs are cancelled", gateway=gateway, jobs=len(lost))
        for attempt in lost:
            self._handler.cancel(attempt)
            self.outbox.replay_buffer.drop(attempt.attempt_id)  # on a later ping another attempt resumes
        self.outbox.drop_gateway(gateway)

    # Control and heartbeat

    async def _handle_controls(self, controls: TypedSubscription[Control]) -> None:
        async for control in controls:
            match control:
                case Cancel():
                    self._handle_cancel(control)
                case Resume():
                    self._resume_requests.handle_response(control)
                case Ping():
                    self._handle_ping(control)
                case Drain():
                    self._stop_requested.set()

    def _handle_cancel(self, cancel: Cancel) -> None:
        attempt = self.attempts.of_job(cancel.job, cancel.reply_to)
        if not cancel.attempt:
            self._cancelled.add(cancel.job, cancel.reply_to)
            if attempt is not None:
                self._handler.cancel(attempt)
        elif attempt is not None and attempt.attempt_id == cancel.attempt:
            self._drop(attempt)

    def _handle_ping(self, ping: Ping) -> None:
        """Send missed replies again; if they are no longer stored, drop the attempt: another resumes the job."""
        attempt = self.attempts.by_id(ping.attempt)
        without_replies = attempt is not None and ping.attempt not in self.outbox.replay_buffer
        replayed = without_replies or self.outbox.replay(ping.reply_to, ping.attempt, ping.received)
        if attempt is not None and not replayed:
            self._drop(attempt)
        state = AttemptState.ALIVE if replayed else AttemptState.LOST
        self._report(ping.reply_to, ping.job, ping.attempt, state)

    def _report(self, gateway: str, job_id: str, attempt_id: str, state: AttemptState, *, crashes: int = 0) -> None:
        self.outbox.put(
            gateway, AttemptReport(job_id=job_id, attempt_id=attempt_id, state=state, crashes=crashes), urgent=True
        )

    async def send_heartbeats(self) -> None:
        """Send heartbeats and fail jobs past their deadline, until cancelled.

        `serve` does so too; a worker calls this itself only while it loads its model.
        """
        while True:
            self._send_status()
            for attempt in self.attempts:
                if not attempt.ended:
                    self._expired(attempt)
            await asyncio.sleep(self._timings.worker_heartbeat_interval)

    def _send_status(self) -> None:
        with suppress(BrokerUnavailable):
            self._bus.send_status(self._status(self.state))

    # Leaving

    async def _drain(self) -> None:
        """Drain (docs/design/reliability-contract.md#F2): requeue waiting jobs, give others `drain_grace` seconds."""
        self.state = WorkerState.DRAINING
        self._settling.release()
        self._send_status()
        _log.info("worker is draining", worker=self._worker, running=len(self.attempts))
        for consumer in self._consumers:
            await consumer.cancel()
        self.outbox.flush()  # so that as few tokens as possible are generated again
        for attempt in self.attempts:
            if not self.admission.has_slot(attempt):
                self.hand_over(attempt)
        if len(self.attempts):
            await self._wait_for(self._idle, self._hand_over_now, at_most=self._drain_grace)
        for attempt in self.attempts:
            self.hand_over(attempt)
        self.outbox.flush()
        if len(self.attempts):  # ended, but not settled yet
            await self._wait_for(self._idle, at_most=self._timings.drain_settle_timeout)

    def hand_over(self, attempt: T) -> None:
        """Stop one attempt and requeue its job, so that another worker answers or resumes the job."""
        if attempt.ended:  # its usage record is on its way
            return
        self._detach(attempt)
        self._report(
            attempt.job.reply_to, attempt.job.id, attempt.attempt_id, AttemptState.HANDED_OVER, crashes=attempt.crashes
        )
        attempt.delivery.reject(requeue=True)
        attempt.log.info("job handed over: returned to its queue")

    async def _return_to_queue(self, attempt: T) -> None:
        """Requeue a job that another worker has to continue, after a delay that grows with its deliveries."""
        deliveries = attempt.job.copy_number * self._timings.republish_after_deliveries
        deliveries += attempt.delivery.delivery_count
        await asyncio.sleep(delay_after(deliveries + 1, RETURN_WAIT))
        self.hand_over(attempt)

    def _drop(self, attempt: T) -> None:
        """Drop an attempt without terminal reply or usage record: another one answers, or the job has ended."""
        if attempt.ended:
            return
        self._detach(attempt)
        attempt.delivery.ack()
        attempt.log.info("attempt dropped")
        self._handler.admit()

    def _detach(self, attempt: T) -> None:
        attempt.ended = True
        self._handler.abandon(attempt)
        self.admission.release(attempt)
        self.outbox.replay_buffer.drop(attempt.attempt_id)
        self._remove(attempt)

    # Tasks

    def spawn(self, work: Coroutine[Any, Any, None], attempt: T | None = None) -> asyncio.Task[None]:
        """Run `work` in a new task, cancelled when `serve` ends; an unexpected error in it fails `attempt`."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled() or (error := task.exception()) is None:
                return
            _log.error("task of a job failed", exc_info=error)
            if attempt is not None:
                self._handler.fail(attempt, FailureCode.ENGINE_ERROR, "The worker failed on this request.")

        task.add_done_callback(done)
        return task

    async def _wait_for(self, *events: asyncio.Event, at_most: float | None = None) -> None:
        """Return when one of `events` is set, or after `at_most` seconds."""
        waits = [asyncio.create_task(event.wait()) for event in events]
        await asyncio.wait(waits, timeout=at_most, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
