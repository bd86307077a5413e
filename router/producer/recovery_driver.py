"""Does the I/O of job recovery in processes that publish jobs: passes events to recoveries, performs their commands.

All I/O of recovery is here: control messages, republished copies, timers, the periodic watch, metrics and log lines.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec
import structlog

from router import control_targets
from router.bus import Bus
from router.errors import BrokerUnavailable, PublishError
from router.messages import Cancel, Control, Job, Reply
from router.model_registry import Availability
from router.producer import recovery_events as events
from router.producer.errors import RepliesLost
from router.producer.metrics import ProducerMetrics
from router.producer.recovery import JobRecovery
from router.producer.resume_decisions import dismiss
from router.producer.unread_replies import UnreadReplies
from router.timings import Timings
from router.transport.base import ConnectionState

REMEMBERED_STOPS = 10_000
"""Attempts for which the time of the last stop message is kept."""

_log = structlog.get_logger(__name__)


class AvailabilityOf(Protocol):
    """Function that returns the availability of a model's workers, as `ModelRegistry.availability`."""

    def __call__(self, name: str, *, begun: bool) -> Availability:
        """Return the availability of model `name`; `begun`: for a job of which a part was delivered."""


class OpenJob:
    """A job whose request is open: its recovery, and the unread replies that accepted ones are added to."""

    def __init__(self, number: int, recovery: JobRecovery, unread: UnreadReplies) -> None:
        self.number = number
        """The job's number within its request."""
        self.recovery = recovery
        self.unread = unread
        self.headers: Mapping[str, str] = {}
        """Headers of the job's messages."""
        self.timer: asyncio.TimerHandle | None = None


class RecoveryDriver:
    """Passes events to one process's job recoveries, and performs their commands. Use it on the event loop only."""

    def __init__(
        self, bus: Bus, own_id: str, metrics: ProducerMetrics, timings: Timings, availability: AvailabilityOf
    ) -> None:
        """`own_id` is where the jobs' replies go; `availability` that of the model registry."""
        self._bus = bus
        self._own_id = own_id
        self._metrics = metrics
        self._timings = timings
        self._availability = availability
        self._broker = events.BrokerHealth()
        self._stopped: OrderedDict[str, float] = OrderedDict()
        self._copies: asyncio.Queue[tuple[OpenJob, int]] = asyncio.Queue()
        """Copies to publish, by number."""

    def open(self, number: int, job: Job, unread: UnreadReplies) -> OpenJob:
        """Start the recovery of one job, number `number` of its request; return its state.

        Accepted replies go to `unread`.
        """
        return OpenJob(number, JobRecovery(job, self._broker, self._timings, time.monotonic()), unread)

    def close(self, job: OpenJob, *, cancel: bool) -> None:
        """End the recovery of one job, whose request has ended; with `cancel`, have its worker stop a running job."""
        self.handle(job, events.RequestClosed(cancel))
        if job.timer is not None:
            job.timer.cancel()

    def handle(self, job: OpenJob, event: events.Event, *, not_before: float = -math.inf) -> None:
        """Pass one event to a job's recovery and perform its commands.

        An unexpected error fails the job's request only.
        """
        try:
            self.perform(job, job.recovery.receive(event, max(not_before, self.refresh())))
        except Exception:  # noqa: BLE001 - the replies to all other requests come the same way
            _log.exception("recovery failed", job=job.recovery.job.id, event_type=type(event).__name__)
            job.unread.fail(RepliesLost())

    def dismiss(self, worker_id: str, reply: Reply) -> None:
        """Drop a worker's reply to a job that is not open here, and have that worker stop the attempt.

        Errors are logged.
        """
        try:
            self.perform(None, dismiss(worker_id, reply))
        except Exception:  # noqa: BLE001 - the replies to all requests come the same way
            _log.exception("reply to no open job not dismissed", reply_type=type(reply).__name__)

    def refresh(self) -> float:
        """Copy the bus's connection state to the `BrokerHealth` of all recoveries; return the monotonic time now."""
        self._broker.up = self._bus.state is ConnectionState.UP
        self._broker.lost_at = self._bus.lost_at
        return time.monotonic()

    def perform(self, job: OpenJob | None, commands: Iterable[events.Command]) -> None:
        """Perform a recovery's commands in order, such as control messages to workers.

        `job` is the open job that the commands are about; with `None` only dropped replies and messages to workers
        occur.
        """
        for command in commands:
            if job is not None:
                self._perform_on(job, command)
            self._perform_beyond(command)

    def _perform_on(self, job: OpenJob, command: events.Command) -> None:
        """Perform a command about an open job; those that reach beyond the job are not for this method."""
        match command:
            case events.Deliver(reply):
                job.unread.append(job.number, reply)
            case events.Republish(copy_number):
                self._copies.put_nowait((job, copy_number))
            case events.WakeAt(at):
                if job.timer is not None:
                    job.timer.cancel()
                delay = max(0.0, at - time.monotonic())
                job.timer = asyncio.get_running_loop().call_later(delay, self._fire, job, at)
            case events.AttemptResumed():
                self._metrics.resumed.inc()
                _log.info("job resumed", job=job.recovery.job.id, **command._asdict())
            case events.FailRequest(error):
                job.unread.fail(error)

    def _perform_beyond(self, command: events.Command) -> None:
        """Perform a command that needs no open job: messages to workers, and the count of dropped replies."""
        match command:
            case events.SendControl(target, control, mandatory):
                if mandatory:
                    self._metrics.doubted.inc()
                self._send(target, control, mandatory=mandatory)
            case events.StopAttempt():
                self._stop(command)
            case events.Drop(known, tokens):
                self._metrics.replies_dropped.labels("not_admitted" if known else "unknown_job").inc()
                self._metrics.tokens_after_disconnect.inc(tokens)

    async def run(self, jobs: Mapping[str, OpenJob]) -> None:
        """Check the open `jobs` (by id) at intervals, and publish further copies of jobs, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(jobs))
            while True:
                tasks.create_task(self._republish(*await self._copies.get()))

    def unreachable(self, target: str, jobs: Mapping[str, OpenJob]) -> None:
        """Report to `jobs` (open ones, by id) of worker `target` that it has no queue at the broker, so may be dead.

        A dead worker's jobs are all pinged at once, and one message comes back for each: the others are not visited.
        """
        for job in [each for each in jobs.values() if _target(each) == target]:
            self.handle(job, events.WorkerUnreachable(target))

    async def _watch(self, jobs: Mapping[str, OpenJob]) -> None:
        while True:
            await asyncio.sleep(self._timings.watch_interval)
            if self._bus.state is not ConnectionState.UP:
                self._broker.unusable_at = time.monotonic()
                continue
            for job in list(jobs.values()):
                recovery = job.recovery
                available = self._availability(recovery.job.model, begun=recovery.output.begun)
                self.handle(job, events.WatchTick(available))

    def _send(self, target: str, control: Control, *, mandatory: bool = False) -> None:
        """Send a control message, unless the broker is away: recovery sends it again."""
        try:
            self._bus.send_control(target, control, mandatory=mandatory)
        except BrokerUnavailable:
            _log.info("control message not sent", target=target, control=type(control).__name__)

    def _stop(self, stop: events.StopAttempt) -> None:
        worker_id, job_id, attempt_id, superseded = stop
        now = time.monotonic()
        if now - self._stopped.get(attempt_id, float("-inf")) < self._timings.stop_interval:
            return
        self._stopped[attempt_id] = now
        self._stopped.move_to_end(attempt_id)
        if len(self._stopped) > REMEMBERED_STOPS:
            self._stopped.popitem(last=False)
        _log.info("attempt stopped", **stop._asdict())
        attempt = attempt_id if superseded else ""
        self._send(control_targets.worker(worker_id), Cancel(job=job_id, attempt=attempt, reply_to=self._own_id))

    def _fire(self, job: OpenJob, at: float) -> None:
        job.timer = None
        self.handle(job, events.TimerFired(), not_before=at)

    async def _republish(self, job: OpenJob, copy_number: int) -> None:
        published, confirmed = job.recovery.job, False
        try:
            await self._bus.publish_job(msgspec.structs.replace(published, copy_number=copy_number), job.headers)
            confirmed = True
            _log.info("job republished", job=published.id, copy=copy_number, after=job.recovery.output.tokens)
        except PublishError as error:
            _log.warning("job not republished", job=published.id, reason=str(error))
        except Exception:  # noqa: BLE001 - one job's copy must not end the recovery of all others
            _log.exception("job not republished", job=published.id)
        finally:
            self.handle(job, events.JobRepublished(copy_number, confirmed))


def _target(job: OpenJob) -> str | None:
    """Return the control target of the worker that runs a job."""
    worker_id = job.recovery.worker_id
    return None if worker_id is None else control_targets.worker(worker_id)
