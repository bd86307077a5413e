"""Which attempt at a job goes on: answers workers that have a job again, and stops attempts that nobody hears.

The gateway that owns a client's connection decides, alone, which attempt speaks for a job and which tokens exist
(docs/design/queue-topology.md#resume). A worker that is given a job for the second time asks. If the one that had it
has said that it let go,
or does not say within `DOUBT_SECONDS` that it is alive, the new one goes on after what was delivered; the old one,
should it come back, is not heard and is told to stop. Knows no HTTP, and does not read what is generated.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from functools import partial
from typing import NamedTuple

import structlog

from gateway.errors import WorkerLost
from gateway.jobs.copies import Copies
from gateway.jobs.job_progress import JobProgress
from gateway.jobs.mailbox import Mailbox
from gateway.metrics import GatewayMetrics
from router import control_targets
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.messages import (
    AttemptReport,
    AttemptState,
    Cancel,
    Control,
    Ping,
    Reply,
    Resume,
    ResumeDecision,
    ResumeRequest,
    Terminal,
)

DOUBT_SECONDS = 0.25
"""How long a worker may take to say that it is alive while another one asks for its job."""
PATIENCE_SECONDS = 3.0
"""The same when the broker was away in the last `BROKER_TROUBLE_SECONDS`: it may still be on its way back."""
BROKER_TROUBLE_SECONDS = 15.0
CRASHES_OF_A_SUSPECT = 2
"""A job that so many attempts in a row went down with, and that got no further meanwhile, is run alone ..."""
CRASHES_OF_A_POISON = 3
"""... and one that so many went down with is not run any more."""
TELL_AGAIN_SECONDS = 1.0
"""Between two words to an attempt that is to stop: the first may have been lost."""
REMEMBERED_STOPS = 10_000

_log = structlog.get_logger(__name__)


class _Doubt(NamedTuple):
    """`worker` asks for a job that another one has."""

    mailbox: Mailbox
    worker: str
    question: ResumeRequest
    alarm: asyncio.TimerHandle
    """Rings when the other one has been silent for too long."""


class _Waiting(NamedTuple):
    """`worker` was told to wait: the one that has the job is alive."""

    worker: str
    question: ResumeRequest


class Failover:
    """One gateway's decisions. Use on the event loop only."""

    def __init__(self, bus: Bus, metrics: GatewayMetrics, copies: Copies) -> None:
        self._bus = bus
        self._metrics = metrics
        self._copies = copies
        self._waiting: dict[str, _Waiting] = {}
        self._doubts: dict[str, _Doubt] = {}
        self._stopped: OrderedDict[str, float] = OrderedDict()
        bus.on_control_unroutable(self._unheard)

    def asked(self, mailbox: Mailbox | None, worker: str, question: ResumeRequest) -> None:
        """Answer a worker that has a job again, now or when it is clear what became of the last attempt."""
        progress = mailbox.progress[question.job_id] if mailbox is not None else None
        if mailbox is None or progress is None or mailbox.failed or _is_over(progress, question):
            self._send(worker, Resume(job=question.job_id, attempt=question.attempt_id, decision=ResumeDecision.GONE))
            return
        self._copies.asked(mailbox, question)
        self._decide(mailbox, worker, question)

    def _decide(self, mailbox: Mailbox, worker: str, question: ResumeRequest) -> None:
        progress = mailbox.progress[question.job_id]
        if progress.worker in (None, worker) or progress.attempt in (None, question.attempt_id) or progress.let_go:
            self._start(mailbox, worker, question)
        else:
            self._doubt(mailbox, worker, question)

    def told(self, mailbox: Mailbox, report: AttemptReport) -> None:
        """A worker has said how an attempt is."""
        progress = mailbox.progress[report.job_id]
        if report.attempt_id != progress.attempt and progress.attempt is not None:
            return
        alive = report.state is AttemptState.ALIVE
        if alive:
            progress.heard = time.monotonic()
        else:
            progress.gone(report.crashes)
        doubt = self._resolve(report.job_id)
        if not alive:
            if (next_one := doubt or self._waiting.get(report.job_id)) is not None:
                self._start(mailbox, next_one.worker, next_one.question)
        elif doubt is not None:
            self._waiting[report.job_id] = _Waiting(doubt.worker, doubt.question)
            self._send(
                doubt.worker, Resume(job=report.job_id, attempt=doubt.question.attempt_id, decision=ResumeDecision.WAIT)
            )

    def message_died(self, mailbox: Mailbox, job: str) -> None:
        """The broker has given up an older copy: perhaps whoever was given it has gone, and the next one can start."""
        if (waiting := self._waiting.get(job)) is not None:
            self._decide(mailbox, waiting.worker, waiting.question)

    def stop(self, worker: str, reply: Reply, *, superseded: bool) -> None:
        """Have a worker stop an attempt that speaks though nobody hears it; `superseded`: another one is heard.

        If nobody waits for the job any more (its cancel was lost, or the gateway was started again) the worker's own
        record is wanted too.
        """
        now = time.monotonic()
        if (
            isinstance(reply, Terminal)
            or now - self._stopped.get(reply.attempt_id, -TELL_AGAIN_SECONDS) < TELL_AGAIN_SECONDS
        ):
            return
        self._stopped[reply.attempt_id] = now
        self._stopped.move_to_end(reply.attempt_id)
        if len(self._stopped) > REMEMBERED_STOPS:
            self._stopped.popitem(last=False)
        _log.info("an attempt that nobody hears is stopped", job=reply.job_id, attempt=reply.attempt_id, worker=worker)
        self._send(worker, Cancel(job=reply.job_id, attempt=reply.attempt_id if superseded else ""))

    def forget(self, job: str) -> None:
        """Nobody waits for a job any more."""
        self._resolve(job)
        self._waiting.pop(job, None)

    def _resolve(self, job: str) -> _Doubt | None:
        if (doubt := self._doubts.pop(job, None)) is not None:
            doubt.alarm.cancel()
        return doubt

    def ping(self, mailbox: Mailbox, job: str) -> None:
        """Ask the attempt that speaks whether it is alive, and to say again what has not come."""
        self._ping(mailbox, job, mandatory=False)

    def _ping(self, mailbox: Mailbox, job: str, *, mandatory: bool) -> None:
        progress = mailbox.progress[job]
        if progress.worker is not None and progress.attempt is not None:
            reply_to = mailbox.jobs[job].reply_to
            ping = Ping(job=job, attempt=progress.attempt, reply_to=reply_to, have=progress.have)
            self._send(progress.worker, ping, mandatory=mandatory)

    def _doubt(self, mailbox: Mailbox, worker: str, question: ResumeRequest) -> None:
        """Ask the worker that has the job whether it is alive; a later question takes the place of an earlier one."""
        self._resolve(question.job_id)
        self._metrics.doubted.inc()
        patience = PATIENCE_SECONDS if self._in_trouble else DOUBT_SECONDS
        silent = partial(self._silent, mailbox, worker, question)
        alarm = asyncio.get_running_loop().call_later(patience, silent)
        self._doubts[question.job_id] = _Doubt(mailbox, worker, question, alarm)
        self._ping(mailbox, question.job_id, mandatory=True)

    @property
    def _in_trouble(self) -> bool:
        """Whether the broker itself may have been away: then all have to come back, and nobody is suspected."""
        return time.monotonic() - self._bus.lost_at < BROKER_TROUBLE_SECONDS

    def _unheard(self, target: str) -> None:
        """Nobody listens there: a worker that is doubted has gone."""
        if self._in_trouble:
            return
        for mailbox, worker, question, _ in list(self._doubts.values()):
            if control_targets.worker(mailbox.progress[question.job_id].worker or "") == target:
                self._silent(mailbox, worker, question)

    def _silent(self, mailbox: Mailbox, worker: str, question: ResumeRequest) -> None:
        self._resolve(question.job_id)
        self._start(mailbox, worker, question)

    def _start(self, mailbox: Mailbox, worker: str, question: ResumeRequest) -> None:
        """Let the attempt of `question` speak from now on, after what was delivered."""
        progress = mailbox.progress[question.job_id]
        self._waiting.pop(question.job_id, None)
        if not progress.resumable:
            mailbox.fail(WorkerLost())
            self._send(worker, Resume(job=question.job_id, attempt=question.attempt_id, decision=ResumeDecision.GONE))
            return
        if progress.attempt != question.attempt_id:
            if not progress.let_go and self._bus.lost_at < progress.bound:
                progress.crashed()
            _log.info(
                "job goes on",
                job=question.job_id,
                worker=worker,
                attempt=question.attempt_id,
                after=progress.tokens,
                was=progress.worker,
                crashes=progress.crashes,
            )
            progress.bind(question.attempt_id, worker, copy=question.copy_number)
            self._metrics.resumed.inc()
        self._send(worker, _answer(progress, question))

    def _send(self, worker: str, control: Control, *, mandatory: bool = False) -> None:
        try:
            self._bus.send_control(control_targets.worker(worker), control, mandatory=mandatory)
        except BrokerUnavailable:
            _log.info("control message not sent", worker=worker, control=type(control).__name__)


def _is_over(progress: JobProgress, question: ResumeRequest) -> bool:
    """Whether nobody has to go on from there; if a newer copy is run, an older one is not needed."""
    return progress.ended or progress.is_superseded(question.attempt_id) or question.copy_number < progress.copy


def _answer(progress: JobProgress, question: ResumeRequest) -> Resume:
    """How a job goes on whose attempt `question.a` speaks now (docs/design/queue-topology.md#poison)."""
    done = progress.delivered
    return Resume(
        job=question.job_id,
        attempt=question.attempt_id,
        decision=ResumeDecision.FAIL if progress.crashes >= CRASHES_OF_A_POISON else ResumeDecision.START,
        solo=progress.crashes >= CRASHES_OF_A_SUSPECT,
        crashes=progress.crashes,
        delivered=done.delivered,
        ended=done.ended,
        embedded=done.embedded,
        cached_tokens=done.cached_tokens,
    )
