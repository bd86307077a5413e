"""The recovery of one job among workers that die, hang and lose replies, in any order that hypothesis finds.

The model: a broker that gives each message to one worker at a time, workers that count, and a network that delays and
loses replies. Whatever happens, the client sees 0, 1, 2, ... without a gap, one end at most, and a worker that requests
to resume is answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from router import control_targets
from router.messages import (
    AttemptReport,
    AttemptState,
    Cancel,
    ChatPrompt,
    Delta,
    Failed,
    FailureCode,
    Finished,
    Ping,
    Reply,
    Resume,
    ResumeDecision,
    ResumeRequest,
    Started,
    Terminal,
    Usage,
)
from router.model_registry import Availability
from router.producer import recovery_events as events
from router.producer.errors import WorkerLost
from router.producer.recovery import JobRecovery
from router.timings import Timings
from tests.fakes.jobs import make_job

LENGTH = 12
"""Tokens of the whole answer."""
ALLOWED = {
    events.JobState.QUEUED: set(events.JobState) - {events.JobState.CONTESTED, events.JobState.STANDBY},
    events.JobState.RUNNING: set(events.JobState) - {events.JobState.QUEUED, events.JobState.STANDBY},
    events.JobState.CONTESTED: set(events.JobState) - {events.JobState.QUEUED},
    events.JobState.STANDBY: set(events.JobState) - {events.JobState.QUEUED},
    events.JobState.WAITING: set(events.JobState) - {events.JobState.QUEUED},
    events.JobState.ORPHANED: set(events.JobState)
    - {events.JobState.QUEUED, events.JobState.CONTESTED, events.JobState.STANDBY},
    events.JobState.ENDED: {events.JobState.ENDED},
}
"""The table of the module's docstring; a state may also stay."""


@dataclass
class Attempt:
    """One worker's work at the job."""

    id: str
    worker: str
    copy_number: int
    deliveries: int
    continues: bool = True
    running: bool = False
    prepared: bool = False
    """Whether it has begun, or knows where to continue."""
    crashes: int = 0
    """Crashes in a row that its worker knows of."""
    position: int = 0
    """Tokens generated or given by the gateway."""
    hangs: bool = False
    asked: bool = False
    sent: list[Reply] = field(default_factory=list)
    """On the way to the gateway; they arrive after the worker's death too."""


class Recovering(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.broker, self.timings, self.now = events.BrokerHealth(), Timings(republish_limit=8), 100.0
        job = make_job(deadline=1e9, prompt=ChatPrompt(messages=[]))
        self.recovery = JobRecovery(job, self.broker, self.timings, self.now)
        self.messages: list[tuple[int, int]] = [(0, 0)]
        """Those in the queue: copy and number of deliveries."""
        self.attempts: dict[str, Attempt] = {}
        """By worker, while it lives."""
        self.senders: list[Attempt] = []
        self.client: list[int] = []
        self.crashes = 0
        """Crashes of workers and engines with the job since a token was generated or delivered."""
        self.availability = Availability.FULL
        self.losses, self.unclaimed = 0, False
        """Copies that a worker took, or could have taken, since the last token; whether none took the newest."""
        self.ends = 0
        self.failed = self.poisoned = False
        self.wake_at: float | None = None
        self.count = 0
        self.event(events.JobQueued())

    # What the machine's driver does

    def event(self, event: events.Event) -> None:
        before = self.recovery.state
        commands = self.recovery.receive(event, self.now)
        assert self.recovery.state is before or self.recovery.state in ALLOWED[before]
        for command in commands:
            self.perform(command)

    def perform(self, command: events.Command) -> None:
        match command:
            case events.Deliver(Delta() as delta):
                assert delta.start == len(self.client)
                assert delta.attempt_id == self.recovery.attempt_id
                self.client += delta.token_ids
                self.crashes = self.losses = 0
                self.unclaimed = False
            case events.Deliver(reply) if isinstance(reply, Terminal):
                self.ends += 1
                self.poisoned = isinstance(reply, Failed)
            case events.SendControl(target, control, mandatory):
                reached = [a for a in self.attempts.values() if control_targets.worker(a.worker) == target]
                if mandatory and not reached:
                    self.event(events.WorkerUnreachable(target))
                for attempt in reached:
                    self.control(attempt, control)
            case events.StopAttempt(worker_id, _, attempt_id):
                assert attempt_id != self.recovery.attempt_id
                if (running := self.attempts.get(worker_id)) is not None and running.id == attempt_id:
                    self.leave(running, requeue=False)
            case events.Republish(copy_number):
                if self.unclaimed and self.availability is not Availability.FREE and self.recovery.attempt_id:
                    assert self.availability is Availability.FULL, "it waits in the queue for those that load"
                self.losses, self.unclaimed = self.losses + 1, True
                self.messages.append((copy_number, 0))
                self.event(events.JobRepublished(copy_number, confirmed=True))
            case events.WakeAt(time):
                self.wake_at = time
            case events.FailRequest(error):
                self.failed = True
                if isinstance(error, WorkerLost):
                    assert self.losses >= self.timings.republish_limit
                    assert not self.unclaimed or self.availability is Availability.FREE, "a copy waits in the queue"

    def control(self, attempt: Attempt, control: object) -> None:
        if attempt.hangs:
            return
        match control:
            case Resume(attempt=id_, decision=decision) if id_ == attempt.id:
                attempt.asked = decision is ResumeDecision.WAIT
                if decision is ResumeDecision.START:
                    assert attempt.continues or not self.client
                    first, attempt.prepared, attempt.crashes = not attempt.prepared, True, control.crashes
                    if first:
                        attempt.position = len((control.delivered or [[]])[0])
                        assert attempt.position == len(self.client)
                    attempt.running = not (first and attempt.crashes)
                    if not attempt.running:  # it has a slot now, and asks for permission to run
                        self.request(attempt)
                elif decision is ResumeDecision.RETURN:
                    newest = attempt.copy_number == self.recovery.copies.newest
                    self.unclaimed = self.unclaimed or (newest and self.losses > 0)
                    self.hand_over(attempt)
                elif decision is not ResumeDecision.WAIT:
                    self.leave(attempt, requeue=False)
            case Ping(attempt=id_, received=received):
                alive = id_ == attempt.id and attempt.prepared
                report = AttemptState.ALIVE if alive else AttemptState.LOST
                attempt.sent.append(AttemptReport(job_id="j", attempt_id=id_, state=report))
                if alive and attempt.position > received[0]:
                    ids = list(range(received[0], attempt.position))
                    attempt.sent.append(Delta(job_id="j", attempt_id=id_, start=received[0], token_ids=ids))
            case Cancel(attempt=id_) if id_ in ("", attempt.id):
                self.leave(attempt, requeue=False)

    def leave(self, attempt: Attempt, *, requeue: bool) -> None:
        del self.attempts[attempt.worker]
        if requeue:
            self.messages.append((attempt.copy_number, attempt.deliveries))

    def some(self, data: st.DataObject, attempts: list[Attempt]) -> Attempt:
        return data.draw(st.sampled_from(sorted(attempts, key=lambda attempt: attempt.worker)))

    # What happens

    @precondition(lambda self: self.messages and len(self.attempts) < 3)
    @rule(data=st.data(), continues=st.sampled_from([True, True, False]))
    def take(self, data: st.DataObject, continues: bool) -> None:
        self.give(*self.messages.pop(data.draw(st.integers(0, len(self.messages) - 1))), continues=continues)

    def give(self, copy_number: int, deliveries: int, *, continues: bool = True) -> Attempt:
        """Give a message to a fresh worker; a proxy does not continue what others have begun."""
        self.count += 1
        attempt = Attempt(f"attempt-{self.count}", f"worker-{self.count}", copy_number, deliveries + 1, continues)
        self.attempts[attempt.worker] = attempt
        self.senders.append(attempt)
        if copy_number or deliveries:
            self.request(attempt)
        else:
            attempt.running = attempt.prepared = True
            attempt.sent.append(Started(job_id="j", attempt_id=attempt.id, worker_id=attempt.worker, prompt_tokens=1))
        return attempt

    def request(self, attempt: Attempt) -> None:
        attempt.asked = True
        request = ResumeRequest(
            job_id="j",
            attempt_id=attempt.id,
            copy_number=attempt.copy_number,
            delivery_count=attempt.deliveries - 1,
            crashes=attempt.crashes,
            continues=attempt.continues,
        )
        self.unclaimed = self.unclaimed and attempt.copy_number != self.recovery.copies.newest
        self.event(events.ReplyReceived(attempt.worker, request))

    @precondition(lambda self: any(a.running and not a.hangs for a in self.attempts.values()))
    @rule(data=st.data(), tokens=st.integers(1, 4))
    def generate(self, data: st.DataObject, tokens: int) -> None:
        self.go_on(self.some(data, [a for a in self.attempts.values() if a.running and not a.hangs]), tokens)

    def go_on(self, attempt: Attempt, tokens: int) -> None:
        end = min(LENGTH, attempt.position + tokens)
        reason = "length" if end == LENGTH else None
        ids = list(range(attempt.position, end))
        if ids:
            attempt.sent.append(
                Delta(job_id="j", attempt_id=attempt.id, start=attempt.position, token_ids=ids, finish_reason=reason)  # type: ignore[arg-type]
            )
        attempt.position = end
        attempt.crashes = self.crashes = 0
        if reason:
            attempt.sent.append(Finished(job_id="j", attempt_id=attempt.id, usage=Usage(prompt_tokens=1)))

    @precondition(lambda self: any(a.sent for a in self.senders))
    @rule(data=st.data(), replies=st.integers(1, 4), lost=st.sampled_from([False, False, False, True]))
    def deliver(self, data: st.DataObject, replies: int, lost: bool) -> None:
        attempt = self.some(data, [a for a in self.senders if a.sent])
        for _ in range(min(replies, len(attempt.sent))):
            reply = attempt.sent.pop(0)
            if not lost:
                self.event(events.ReplyReceived(attempt.worker, reply))

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), fault=st.sampled_from(["kill", "hang", "hand over"]))
    def strike(self, data: st.DataObject, fault: str) -> None:
        attempt = self.some(data, list(self.attempts.values()))
        if fault == "hang":
            attempt.hangs = True
            return
        if fault == "hand over":
            self.hand_over(attempt)
        else:
            self.leave(attempt, requeue=True)
            self.crashes += attempt.running

    def hand_over(self, attempt: Attempt) -> None:
        self.leave(attempt, requeue=True)
        state = AttemptState.HANDED_OVER
        report = AttemptReport(job_id="j", attempt_id=attempt.id, state=state, crashes=attempt.crashes)
        self.event(events.ReplyReceived(attempt.worker, report))

    @precondition(lambda self: any(a.running and not a.hangs for a in self.attempts.values()))
    @rule(data=st.data(), reported=st.booleans())
    def crash_engine(self, data: st.DataObject, reported: bool) -> None:
        """The engine in a living worker crashes; the worker's request for another run may be lost."""
        attempt = self.some(data, [a for a in self.attempts.values() if a.running and not a.hangs])
        attempt.running, attempt.crashes = False, attempt.crashes + 1
        self.crashes += 1
        if attempt.crashes >= self.timings.poison_after_crashes:
            failed = Failed(
                job_id="j", attempt_id=attempt.id, code=FailureCode.FAILED_REPEATEDLY, message="", usage=None
            )
            attempt.sent.append(failed)
            self.leave(attempt, requeue=False)
        elif reported:
            while attempt.sent:
                self.event(events.ReplyReceived(attempt.worker, attempt.sent.pop(0)))
            self.request(attempt)

    @rule()
    def lose_broker(self) -> None:
        self.broker.lost_at = self.now

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 30.0]), availability=st.sampled_from(Availability))
    def pass_time(self, seconds: float, availability: Availability) -> None:
        self.wait(seconds, availability)

    def wait(self, seconds: float, availability: Availability) -> None:
        end = self.now + seconds
        while self.wake_at is not None and self.wake_at <= end:
            self.now, self.wake_at = max(self.now, self.wake_at), None
            self.event(events.TimerFired())
        self.now = end
        self.availability = availability
        self.event(events.WatchTick(availability))

    # What must be true

    @invariant()
    def answer_is_contiguous(self) -> None:
        assert self.client == list(range(len(self.client)))
        assert self.client == list(range(self.recovery.output.tokens))

    @invariant()
    def ends_once_and_only_when_whole(self) -> None:
        assert self.ends <= 1
        assert not self.ends or self.poisoned or len(self.client) == LENGTH

    @invariant()
    def a_poison_message_crashes_three_times_at_most(self) -> None:
        assert self.crashes <= self.timings.poison_after_crashes

    @invariant()
    def a_contest_has_a_timer(self) -> None:
        assert self.recovery.state is not events.JobState.CONTESTED or self.wake_at is not None

    def teardown(self) -> None:
        """One healthy worker is enough to bring the answer to its end."""
        if self.failed or self.recovery.ended:
            return
        for attempt in list(self.attempts.values()):
            self.leave(attempt, requeue=False)
        self.messages = []
        attempt = self.give(self.recovery.copies.newest, 1)
        for _ in range(200):
            self.wait(1.0, Availability.FULL)
            if self.failed or self.recovery.ended or attempt.worker not in self.attempts:
                break
            if attempt.running:
                self.go_on(attempt, 4)
            elif attempt.asked:
                self.request(attempt)
            while attempt.sent:
                self.event(events.ReplyReceived(attempt.worker, attempt.sent.pop(0)))
        assert self.failed or self.recovery.ended or self.recovery.crashes >= self.timings.poison_after_crashes


TestRecovering = Recovering.TestCase
TestRecovering.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
