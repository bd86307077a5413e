"""Recovers one published job when workers or broker fail: a state machine without I/O, from events to commands.

The job's publisher (a gateway, or the parent of a child job) decides alone which attempt is authoritative and which
output exists (docs/design/queue-topology.md#resume). Three fences protect the answer: replies are accepted of it
only, in order of position only, and never after the end. It reads no clock; `recovery_driver.py` does all I/O.

| state     | meaning                               | left when                                                   |
|-----------|---------------------------------------|-------------------------------------------------------------|
| QUEUED    | no attempt has replied                | one starts or resumes: RUNNING; overdue: republish          |
| RUNNING   | one attempt is authoritative          | released: ORPHANED; silent: ping, republish; another worker |
|           |                                       | requests to resume the job: CONTESTED                       |
| CONTESTED | its worker is pinged for that reason  | alive: STANDBY; released, unreachable, silent: RUNNING      |
| STANDBY   | it is alive, the other worker waits   | released: RUNNING; requested again: CONTESTED               |
| ORPHANED  | released: handed over or lost         | a worker resumes it: RUNNING; lost: republish               |
| WAITING   | silent; a copy is queued, none free   | resumed or heard: RUNNING; a worker is free: republish      |
| ENDED     | terminal reply, or request closed     | never                                                       |

A gap is requested again from the worker (`Ping`) in every state that has an attempt. Republished copies are numbered:
once a newer copy runs, older messages, their workers and their dead letters are of no consequence. A job runs again by
a resume decision only (also after a crash of its engine), which counts all silent ends of attempts as crashes.
"""

from __future__ import annotations

import math
from typing import get_args

from router import control_targets, messages
from router.messages import REAPER, AttemptState, FailureCode, Reply, ResumeDecision, Terminal
from router.model_registry import Availability
from router.producer import recovery_events as events
from router.producer.errors import NotContinuable, RepliesLost, WorkerLost
from router.producer.job_copies import JobCopies
from router.producer.job_output import PROGRESS, Acceptance, JobOutput
from router.producer.recovery_events import BrokerHealth, Candidate, Command, Event, Gap, JobState
from router.producer.resume_decisions import decision_on
from router.timings import Timings

TERMINAL = get_args(Terminal)


class JobRecovery:
    """Decides which attempt at one job is authoritative and which output counts; the caller keeps `broker` current."""

    def __init__(self, job: messages.Job, broker: BrokerHealth, timings: Timings, now: float) -> None:
        self.job = job
        self.output = JobOutput.of(job)
        self.worker_id: str | None = None
        """The worker of the authoritative attempt."""
        self.attempt_id: str | None = None
        self.crashes = 0
        """Crashes of workers and engines since the output last grew, as far as they can't be ruled out."""
        self.copy_number = 0
        """The copy of the job that the authoritative attempt was given."""
        self.copies = JobCopies(timings)
        self.ended = False
        """Whether a terminal reply was accepted."""
        self._broker = broker
        self._timings = timings
        self._closed = False
        self._superseded: set[str] = set()
        self._released, self._may_crash = False, True
        """Whether the authoritative attempt was given up; whether it, or an unknown earlier one, may be running."""
        self._heard_at = now
        self._availability, self._waiting = Availability.FULL, False
        """Availability of the model's workers at the last watch tick, and whether the job waits for a worker."""
        self._candidate: Candidate | None = None
        self._gap: Gap | None = None

    @property
    def state(self) -> JobState:
        """State of this job's recovery: queued, running, contested, standby, orphaned or ended."""
        if self.ended or self._closed:
            return JobState.ENDED
        if self.attempt_id is None:
            return JobState.QUEUED
        if self._candidate is not None:
            return JobState.STANDBY if math.isinf(self._candidate.timeout) else JobState.CONTESTED
        if self._waiting:
            return JobState.WAITING
        return JobState.ORPHANED if self._released else JobState.RUNNING

    def receive(self, event: Event, now: float) -> list[Command]:
        """Update the job's recovery by one event at monotonic time `now`; return the commands to perform, in order."""
        commands: list[Command] = []
        match event:
            case events.ReplyReceived(worker_id, reply):
                commands = self._reply_received(worker_id, reply, now)
            case events.JobQueued():
                self.copies.queued(now)
            case events.JobRepublished(number, confirmed):
                self.copies.published(number, self.output.extent, now, confirmed=confirmed)
            case events.WorkerUnreachable(target):
                commands = self._worker_unreachable(target, now)
            case events.TimerFired():
                commands = self._timer_fired(now)
            case events.WatchTick(availability):
                self._availability = availability
                commands = self._watched(now)
            case events.RequestClosed(cancel):
                commands = self._request_closed(cancel)
        return commands

    # Replies

    def _reply_received(self, worker_id: str, reply: Reply, now: float) -> list[Command]:
        if isinstance(reply, messages.ResumeRequest):
            return self._resume_requested(worker_id, reply, now)
        if isinstance(reply, messages.AttemptReport):
            return self._attempt_reported(reply, now)
        if self._closed:
            return [events.Drop()]
        if worker_id == REAPER and (continued := self._outlive(reply, now)) is not None:
            return continued
        return self._accept(worker_id, reply, now)

    def _accept(self, worker_id: str, reply: Reply, now: float) -> list[Command]:
        if self.ended or not self._is_authoritative(worker_id, reply, now):
            stop = events.StopAttempt(worker_id, reply.job_id, reply.attempt_id)
            silent = isinstance(reply, TERMINAL) or (self.ended and reply.attempt_id not in self._superseded)
            return [events.Drop()] if silent else [events.Drop(), stop]
        try:
            acceptance = self.output.accept(reply)
        except RepliesLost as error:
            return [events.Drop(), events.FailRequest(error)]
        if acceptance is not Acceptance.NEW:
            missing = acceptance is Acceptance.GAP and self._gap is None
            return [events.Drop(), *self._request_missing(now), *self._wake()] if missing else [events.Drop()]
        self._heard_at, self._may_crash, self._waiting = now, True, False
        self.crashes = 0 if isinstance(reply, PROGRESS) else self.crashes
        self.ended = isinstance(reply, TERMINAL)
        return [events.Deliver(reply)]

    def _is_authoritative(self, worker_id: str, reply: Reply, now: float) -> bool:
        """Whether the reply's attempt is, or becomes, the authoritative one; the reaper speaks for its newest copy."""
        if worker_id == REAPER and isinstance(reply, messages.Failed):
            return reply.copy_number >= self.copies.newest
        if reply.attempt_id == self.attempt_id:
            return True
        starts = self.attempt_id is None or isinstance(reply, messages.Started)
        if reply.attempt_id in self._superseded or not starts or self.output.grown:
            return False
        self.crashes += self.attempt_id is not None and self._may_crash
        self._bind(reply.attempt_id, worker_id, now)
        return True

    def _outlive(self, failed: Reply, now: float) -> list[Command] | None:
        """What to do if the job continues although a message of it was dead-lettered; `None` if it does not."""
        if self.ended or not isinstance(failed, messages.Failed) or failed.code is not FailureCode.FAILED_REPEATEDLY:
            return None
        commands: list[Command] | None = []
        if failed.copy_number >= self.copies.newest:
            commands = self.copies.replace_dead(self.output.extent)
        if commands is not None and self.state is JobState.STANDBY and self._candidate is not None:
            commands += self._decide(self._candidate, now)
        return commands

    def _request_missing(self, now: float) -> list[Command]:
        positions, tries, _ = self._gap or Gap([], 0, now)
        self._gap = None
        if self.ended or (positions and positions != self.output.positions):
            return []  # closed meanwhile
        if tries >= self._timings.gap_retries:
            return [events.FailRequest(RepliesLost())]
        retry_at = now + self._timings.gap_retry_interval
        self._gap = Gap(self.output.positions, tries + self._broker.up, retry_at)
        return self._ping()

    # Attempts

    def _resume_requested(self, worker_id: str, request: messages.ResumeRequest, now: float) -> list[Command]:
        superseded = request.attempt_id in self._superseded or request.copy_number < self.copy_number
        if self._closed or self.ended or superseded:
            return [decision_on(worker_id, request, ResumeDecision.GONE)]
        self.copies.claimed(request.copy_number)
        commands: list[Command] = []
        if request.delivery_count >= self._timings.republish_after_deliveries:
            newest = request.copy_number == self.copies.newest
            commands = (self.copies.publish(self.output.extent) if newest else None) or []
        return [*commands, *self._decide(Candidate(worker_id, request), now)]

    def _decide(self, candidate: Candidate, now: float) -> list[Command]:
        """Resume at once if no other worker can be running the job; else ping that worker."""
        same = self.worker_id in (None, candidate.worker_id) or self.attempt_id in (None, candidate.request.attempt_id)
        if same or self._released:
            return self._resume(candidate, now)
        timings = self._timings
        timeout = timings.reconnect_resume_timeout if self._reconnecting(now) else timings.resume_timeout
        pinged = math.inf if self._candidate is None else self._candidate.timeout  # not extended by another candidate
        self._candidate = candidate._replace(timeout=min(now + timeout, pinged))
        return [*self._ping(mandatory=True), *self._wake()]

    def _attempt_reported(self, report: messages.AttemptReport, now: float) -> list[Command]:
        if self._closed or self.ended or self.attempt_id != report.attempt_id:
            return []
        candidate = self._candidate
        if report.state is AttemptState.ALIVE:
            self._heard_at, self._waiting = now, False
            if candidate is None or math.isinf(candidate.timeout):
                return []
            self._candidate = candidate._replace(timeout=math.inf)
            return [decision_on(candidate.worker_id, candidate.request, ResumeDecision.WAIT)]
        self._released, lost = True, report.state is AttemptState.LOST
        self._may_crash = self._may_crash and lost
        self.crashes = max(self.crashes, report.crashes)
        if not lost:
            self.copies.handed_back()
        if candidate is not None:
            return self._resume(candidate, now)
        return self._replace_attempt(now) if lost else []

    def _worker_unreachable(self, target: str, now: float) -> list[Command]:
        contested = self.state is JobState.CONTESTED and control_targets.worker(self.worker_id or "") == target
        if contested and self._candidate is not None and not self._reconnecting(now):
            return self._resume(self._candidate, now)
        return []

    def _resume(self, candidate: Candidate, now: float) -> list[Command]:
        """Make the candidate's attempt the authoritative one; it continues after the accepted output."""
        worker_id, request, _ = candidate
        self._candidate = None
        if not self.output.resumable:
            return [events.FailRequest(NotContinuable()), decision_on(worker_id, request, ResumeDecision.GONE)]
        if self.output.begun and not request.continues:
            self.copies.returned(request.copy_number)
            return [decision_on(worker_id, request, ResumeDecision.RETURN)]
        commands: list[Command] = []
        if self.attempt_id != request.attempt_id:
            self.crashes += self._may_crash
            previous, tokens = self.worker_id, self.output.tokens
            commands.append(events.AttemptResumed(worker_id, request.attempt_id, previous, tokens, self.crashes))
            self._bind(request.attempt_id, worker_id, now, copy_number=request.copy_number)
        self.crashes = max(self.crashes, request.crashes)
        self._may_crash = not self.crashes or request.crashes > 0  # else it asks again when it has a slot
        decision = ResumeDecision.FAIL if self.crashes >= self._timings.poison_after_crashes else ResumeDecision.START
        solo, point = self.crashes >= self._timings.solo_after_crashes, self.output.resume_point
        answer = decision_on(worker_id, request, decision, solo=solo, crashes=self.crashes, **point._asdict())
        return [*commands, answer]

    def _bind(self, attempt_id: str, worker_id: str, now: float, *, copy_number: int = 0) -> None:
        if self.attempt_id is not None and self.attempt_id != attempt_id:
            self._superseded.add(self.attempt_id)
        self.attempt_id, self.worker_id, self.copy_number = attempt_id, worker_id, copy_number
        self._released, self._may_crash, self._waiting = False, True, False
        self._heard_at = now

    # Silence

    def _timer_fired(self, now: float) -> list[Command]:
        commands: list[Command] = []
        if self._candidate is not None and now >= self._candidate.timeout:
            commands += self._resume(self._candidate, now)
        if self._gap is not None and now >= self._gap.retry_at:
            commands += self._request_missing(now)
        return [*commands, *self._wake()]

    def _watched(self, now: float) -> list[Command]:
        if self.state is JobState.ENDED:
            return []
        if self.attempt_id is None:
            return self.copies.publish_overdue(self._broker, now, has_capacity=self._availability is Availability.FREE)
        silence = now - max(self._heard_at, self._broker.disturbed_at)
        ping = self._heard_at < self._broker.lost_at or silence >= self._timings.ping_after
        commands = self._ping() if ping else []
        if silence >= self._timings.give_up_after and not self._released:
            commands += self._replace_attempt(now)
        return commands

    def _replace_attempt(self, now: float) -> list[Command]:
        """Have another worker take the job, unless that was just requested; a worker that was only slow keeps it."""
        self._waiting = self.copies.wait_in_queue(self.output.extent, self._availability)
        if self._waiting or self.copies.in_pickup(now):
            return []
        commands = self.copies.publish(self.output.extent)
        return [events.FailRequest(WorkerLost())] if commands is None else commands

    def _request_closed(self, cancel: bool) -> list[Command]:
        self._closed, self._candidate, self._gap = True, None, None
        if not cancel or self.ended:
            return []
        target = control_targets.worker(self.worker_id) if self.worker_id else control_targets.model(self.job.model)
        return [events.SendControl(target, messages.Cancel(job=self.job.id, reply_to=self.job.reply_to))]

    def _reconnecting(self, now: float) -> bool:
        return now - self._broker.lost_at < self._timings.reconnect_window

    def _ping(self, *, mandatory: bool = False) -> list[Command]:
        """Ping the authoritative attempt's worker: if it is alive, it sends the missing replies again."""
        job, worker_id, attempt_id = self.job, self.worker_id, self.attempt_id
        if worker_id is None or attempt_id is None:
            return []
        ping = messages.Ping(job=job.id, attempt=attempt_id, reply_to=job.reply_to, received=self.output.positions)
        return [events.SendControl(control_targets.worker(worker_id), ping, mandatory)]

    def _wake(self) -> list[Command]:
        times = [*([self._candidate.timeout] if self._candidate else []), *([self._gap.retry_at] if self._gap else [])]
        return [events.WakeAt(min(times))] if times and not math.isinf(min(times)) else []
