"""Drives the recovery of all open jobs: tells each state machine what happens, and performs its commands.

All I/O of recovery is here: control messages, republished copies, timers, the periodic watch, metrics and log lines.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

import msgspec
import structlog

from gateway.jobs.recovery import JobRecovery
from gateway.jobs.recovery_events import (
    AttemptResumed,
    BrokerHealth,
    Command,
    Deliver,
    Drop,
    Event,
    FailRequest,
    JobRepublished,
    Republish,
    RequestClosed,
    SendControl,
    StopAttempt,
    TimerFired,
    WakeAt,
    WatchTick,
    WorkerUnreachable,
)
from gateway.jobs.unread_replies import UnreadReplies
from gateway.metrics import GatewayMetrics
from router import control_targets
from router.bus import Bus
from router.errors import BrokerUnavailable, PublishError
from router.messages import Cancel, Control, Job
from router.timings import Timings
from router.transport.base import ConnectionState

REMEMBERED_STOPS = 10_000
"""Attempts for which the time of the last stop message is kept."""

_log = structlog.get_logger(__name__)


class OpenJob:
    """A job whose request is open: its recovery, and where accepted replies go."""

    def __init__(self, number: int, recovery: JobRecovery, unread: UnreadReplies) -> None:
        self.number = number
        """Which of the request's jobs it is."""
        self.recovery = recovery
        self.unread = unread
        self.headers: Mapping[str, str] = {}
        """Headers of the job's messages."""
        self.timer: asyncio.TimerHandle | None = None


class RecoveryDriver:
    """One gateway's driver. Use it on the event loop only."""

    def __init__(
        self, bus: Bus, metrics: GatewayMetrics, timings: Timings, has_capacity: Callable[[str], bool]
    ) -> None:
        """`has_capacity(model)` returns whether a live worker would start a job of the model at once."""
        self._bus = bus
        self._metrics = metrics
        self._timings = timings
        self._has_capacity = has_capacity
        self._broker = BrokerHealth()
        self._stopped: OrderedDict[str, float] = OrderedDict()
        self._contested: dict[str, OpenJob] = {}
        """Jobs with a mandatory ping under way."""
        self._republishing: set[asyncio.Task[None]] = set()
        bus.on_control_unroutable(self._unreachable)

    def open(self, number: int, job: Job, unread: UnreadReplies) -> OpenJob:
        """Return the open job of `job`, the request's job number `number`."""
        return OpenJob(number, JobRecovery(job, self._broker, self._timings, time.monotonic()), unread)

    def close(self, job: OpenJob, *, cancel: bool) -> None:
        """End the recovery of a job; `cancel` it at its worker unless it has ended."""
        self.handle(job, RequestClosed(cancel))
        self._contested.pop(job.recovery.job.id, None)
        if job.timer is not None:
            job.timer.cancel()

    def handle(self, job: OpenJob, event: Event) -> None:
        """Pass an event to the job's recovery, and perform the commands."""
        self.perform(job, job.recovery.receive(event, self.refresh(job)))

    def refresh(self, job: OpenJob) -> float:
        """Bring up to date what the job's recovery sees of the broker and of its request, and return the time."""
        self._broker.up = self._bus.state is ConnectionState.UP
        self._broker.lost_at = self._bus.lost_at
        now = time.monotonic()
        if job.unread.failed:
            job.recovery.receive(RequestClosed(cancel=False), now)
        return now

    def perform(self, job: OpenJob, commands: Iterable[Command]) -> None:
        """Perform commands in order."""
        for command in commands:
            match command:
                case Deliver(reply):
                    job.unread.append(job.number, reply)
                case Drop():
                    self._metrics.replies_dropped.labels("not_admitted").inc()
                case SendControl(target, control, mandatory):
                    if mandatory:
                        self._contested[job.recovery.job.id] = job
                        self._metrics.doubted.inc()
                    self.send(target, control, mandatory=mandatory)
                case StopAttempt(worker_id, attempt_id):
                    self.stop_attempt(worker_id, job.recovery.job.id, attempt_id, superseded=True)
                case Republish(copy_number):
                    task = asyncio.create_task(self._republish(job, copy_number))
                    self._republishing.add(task)
                    task.add_done_callback(self._republishing.discard)
                case WakeAt(at):
                    self._wake_at(job, at)
                case AttemptResumed():
                    self._metrics.resumed.inc()
                    _log.info("job resumed", job=job.recovery.job.id, **command._asdict())
                case FailRequest(error):
                    job.unread.fail(error)

    async def watch(self, jobs: Mapping[str, OpenJob]) -> None:
        """Check the open `jobs` for silence, until cancelled."""
        while True:
            await asyncio.sleep(self._timings.watch_interval)
            if self._bus.state is not ConnectionState.UP:
                self._broker.unusable_at = time.monotonic()
                continue
            for job in list(jobs.values()):
                self.handle(job, WatchTick(self._has_capacity(job.recovery.job.model)))

    def stop_attempt(self, worker_id: str, job_id: str, attempt_id: str, *, superseded: bool) -> None:
        """Have a worker stop an attempt, at most once in `Timings.stop_interval`.

        An attempt that is not `superseded` by another one is cancelled with its job, whose gateway is gone: the
        worker's own usage record is needed then.
        """
        now = time.monotonic()
        if now - self._stopped.get(attempt_id, float("-inf")) < self._timings.stop_interval:
            return
        self._stopped[attempt_id] = now
        self._stopped.move_to_end(attempt_id)
        if len(self._stopped) > REMEMBERED_STOPS:
            self._stopped.popitem(last=False)
        _log.info("attempt stopped", job=job_id, attempt=attempt_id, worker=worker_id, superseded=superseded)
        self.send(control_targets.worker(worker_id), Cancel(job=job_id, attempt=attempt_id if superseded else ""))

    def send(self, target: str, control: Control, *, mandatory: bool = False) -> None:
        """Send a control message, unless the broker is away: recovery sends it again."""
        try:
            self._bus.send_control(target, control, mandatory=mandatory)
        except BrokerUnavailable:
            _log.info("control message not sent", target=target, control=type(control).__name__)

    def _unreachable(self, target: str) -> None:
        for job in list(self._contested.values()):
            self.handle(job, WorkerUnreachable(target))

    def _wake_at(self, job: OpenJob, at: float) -> None:
        if job.timer is not None:
            job.timer.cancel()
        job.timer = asyncio.get_running_loop().call_later(max(0.0, at - time.monotonic()), self._fire, job, at)

    def _fire(self, job: OpenJob, at: float) -> None:
        job.timer = None
        self.perform(job, job.recovery.receive(TimerFired(), max(at, self.refresh(job))))

    async def _republish(self, job: OpenJob, copy_number: int) -> None:
        published, confirmed = job.recovery.job, False
        try:
            await self._bus.publish_job(msgspec.structs.replace(published, copy_number=copy_number), job.headers)
            confirmed = True
            _log.info("job republished", job=published.id, copy=copy_number, after=job.recovery.output.tokens)
        except PublishError as error:
            _log.warning("job not republished", job=published.id, reason=str(error))
        finally:
            self.handle(job, JobRepublished(copy_number, confirmed))
