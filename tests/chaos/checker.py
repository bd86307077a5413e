"""Check a run: join client records, books and engine counts, and list each violated invariant.

Pure functions over plain values. The invariants I1 to I9 are in docs/design/reliability-contract.md#invariants. Three
more names follow from them: `lost` (a request that failed although this run's faults allow no failure), `ghost`
(wasted work: tokens for a client that had left) and `pause` (a stream that was silent for longer than allowed). What a
configuration allows is written in its `Limits` before the run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from tests.chaos.client import CALCULATES
from tests.chaos.evidence import Counted, Evidence, Job
from tests.chaos.history import End, Request

FINISH_REASONS = {"stop", "length", "tool_calls", "content_filter"}
NEVER_RETRY = {"insufficient_quota", "billing_not_active", "job_failed_repeatedly"}
"""Refusals that no waiting changes: they have no `Retry-After`."""
RETRY_AFTER = (1, 60)
POISON_CRASHES = 3
GATEWAY_KILL = "gateway_kill"
COPY_BROKEN = "server_shutdown"
"""The code with which a stream ends that a gateway copied from another one, which was killed."""


@dataclass(frozen=True)
class Limits:
    """What the faults of a configuration entitle clients to. Seconds."""

    refusals: frozenset[str] = frozenset()
    """Codes with which a request may be refused before anything of it was answered."""
    errors: frozenset[str] = frozenset()
    """Codes with which a stream that has begun may end."""
    pause: float = 60.0
    """Longest silence inside a stream."""
    refusal_seconds: tuple[float, float] | None = None
    """Of refusals, the median and the 99th percentile; `None`: not judged."""
    ghost: float = 10.0
    """Seconds that an engine may work for a client that has left; not counted during and shortly after a fault."""


@dataclass(frozen=True)
class Violation:
    """A broken promise."""

    invariant: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.subject}: {self.detail}"


@dataclass(frozen=True)
class Run:
    """One run, joined."""

    requests: Sequence[Request]
    evidence: Evidence
    limits: Limits = field(default_factory=Limits)

    @cached_property
    def counted(self) -> Mapping[int, list[Counted]]:
        """By request."""
        found: dict[int, list[Counted]] = defaultdict(list)
        for each in self.evidence.counted:
            found[each.request].append(each)
        return found

    @cached_property
    def jobs_of(self) -> Mapping[int, list[Job]]:
        """By request: from the answer's id, and from the attempts that engines made at its prompt."""
        ids: dict[int, set[str]] = defaultdict(set)
        for request in self.requests:
            if request.id:
                ids[request.number].add(request.id)
        for each in self.evidence.counted:
            if each.attempt in self.evidence.job_of_attempt:
                ids[each.request].add(self.evidence.job_of_attempt[each.attempt])
        jobs = self.evidence.jobs
        return {number: [jobs[id_] for id_ in sorted(found) if id_ in jobs] for number, found in ids.items()}

    def positions(self, request: int) -> int:
        """Tokens that engines made for a request, each position of each choice once."""
        union: dict[int, set[int]] = defaultdict(set)
        for each in self.counted.get(request, ()):
            for choice, positions in each.positions.items():
                union[choice] |= positions
        return sum(map(len, union.values()))

    def gateway_was_killed(self, request: Request, *, other: bool = False) -> bool:
        """Whether its gateway was, while it ran; or an `other` one."""
        return any(
            each.nemesis == GATEWAY_KILL
            and (each.target == request.gateway) is not other
            and request.began - 1 <= each.ended
            and each.began <= request.ended + 1
            for each in self.evidence.struck
        )


def check(run: Run) -> list[Violation]:
    """Everything that is wrong."""
    found: list[Violation] = []
    for request in run.requests:
        found += _terminal(run, request)
        found += _continuous(run, request)
        found += _steps(run, request)
        found += _billed_as_told(run, request)
        found += _no_charge_without_delivery(run, request)
        found += _refused_in_shape(request)
        found += _ghosts(run, request)
        found += _poison(run, request)
        if (pause := longest_pause(request)) > run.limits.pause:
            found.append(_of(request, "pause", f"silent for {pause:.1f} s, {run.limits.pause:.1f} s are allowed"))
    found += _same_answer_for_a_key(run)
    found += _one_bill_for_a_key(run)
    found += check_books(run.evidence)
    found += _charged_to_somebody(run)
    found += _fast_refusals(run)
    found += [Violation("I9", "logs", leak) for leak in run.evidence.leaks]
    return found


def _of(request: Request, invariant: str, detail: str) -> Violation:
    return Violation(invariant, f"request {request.number} ({request.act}, {request.id or 'no id'})", detail)


# I1: every request ends, in a way that it may


def _terminal(run: Run, request: Request) -> Iterator[Violation]:
    limits = run.limits
    match request.end:
        case End.UNFINISHED:
            yield _of(request, "I1", f"no end; status {request.status}, {len(request.arrivals)} pieces of text")
        case End.BROKEN if not run.gateway_was_killed(request):
            yield _of(request, "I1", f"the connection to {request.gateway} broke ({request.why})")
        case End.FINISHED:
            reasons = [request.finish.get(choice) for choice in range(request.choices)]
            if not set(reasons) <= FINISH_REASONS:
                yield _of(request, "I1", f"finished with {reasons}")
        case End.FAILED if request.key and request.code == COPY_BROKEN and run.gateway_was_killed(request, other=True):
            return
        case End.FAILED if request.innocent and not _may_fail(request, limits):
            yield _of(request, "lost", f"its stream ended with {request.code}")
        case End.REFUSED if request.innocent and not _may_be_refused(request, limits):
            yield _of(request, "lost", f"answered {request.status} {request.code}")


def _may_be_refused(request: Request, limits: Limits) -> bool:
    return request.code in limits.refusals or (bool(request.key) and request.code == "idempotency_key_in_use")


def _may_fail(request: Request, limits: Limits) -> bool:
    """A stream's status line does not wait for its worker, so a refusal may come as its only event."""
    return request.code in limits.errors or (not request.arrivals and _may_be_refused(request, limits))


# I2: the numbers are 0, 1, 2, ... to the end


@dataclass(frozen=True)
class Numbers:
    """What is wrong with the numbers of a choice."""

    numbers: int
    duplicates: int
    gaps: int
    garbled: bool


def look_at_text(text: str, *, whole: bool) -> Numbers:
    """The numbers of a choice's text; one that is cut off may end inside a number if it is not `whole`."""
    words = text.split(" ")
    last = words.pop()  # after the last space: nothing, or the beginning of a number
    garbled = not all(word.isdecimal() for word in words) or (whole and last != "")
    duplicates = gaps = expected = 0
    for number in (int(word) for word in words if word.isdecimal()):
        duplicates += number < expected
        gaps += number > expected
        expected = number + 1
    return Numbers(len(words), duplicates, gaps, garbled)


def _continuous(run: Run, request: Request) -> Iterator[Violation]:
    seen = 0
    for choice in range(request.choices):
        text = request.text(choice)
        finished = request.end is End.FINISHED
        looked = look_at_text(text, whole=finished and request.stop_before is None)
        seen += looked.numbers
        if looked.duplicates or looked.gaps or looked.garbled:
            yield _of(request, "I2", f"choice {choice}: {looked.duplicates} duplicates, {looked.gaps} gaps in {text!r}")
        wanted = request.asked if request.stop_before is None else request.stop_before
        if finished and looked.numbers != wanted:
            yield _of(request, "I2", f"choice {choice}: {looked.numbers} numbers, {wanted} were to come")
    if seen > run.positions(request.number) and not request.key:
        yield _of(request, "I2", f"{seen} tokens seen, engines made {run.positions(request.number)}")


def _steps(run: Run, request: Request) -> Iterator[Violation]:
    """Each step of an assistant's answer comes once, and each call of a tool that gave a result is billed once."""
    if request.end is not End.FINISHED or request.act not in CALCULATES:
        return
    if request.steps not in (["route done", "tool done"], ["route done", "tool failed"]):
        yield _of(request, "I2", f"steps {request.steps}")
    if request.usage is not None and request.usage.calls != request.steps.count("tool done"):
        yield _of(request, "I3", f"told {request.usage.calls} calls of a tool after the steps {request.steps}")


# I3 and I4: reported usage is billed, once; undelivered answers cost nothing


def _billed_as_told(run: Run, request: Request) -> Iterator[Violation]:
    job = run.evidence.jobs.get(request.id)
    if request.end is End.FINISHED:
        if job is None or request.usage is None:
            yield _of(request, "I3", "finished, and not in the books" if job is None else "no usage was told")
            return
        if job.billed != request.usage:
            yield _of(request, "I3", f"told {request.usage}, billed {job.billed}")
        if request.stop_before is None and request.usage.completion != request.asked * request.choices:
            yield _of(request, "I3", f"told {request.usage.completion} tokens, {request.asked * request.choices} came")
    elif job is not None:
        seen = sum(look_at_text(request.text(choice), whole=False).numbers for choice in range(request.choices))
        streamed = request.streamed and not request.key
        if job.source == "receipt" and streamed and job.billed.completion < seen:
            yield _of(request, "I3", f"{seen} tokens seen, {job.billed.completion} billed")
    for each in run.jobs_of.get(request.number, ()):
        if not request.key and each.billed.completion > run.positions(request.number):
            made = run.positions(request.number)
            yield _of(request, "I3", f"{each.id}: {each.billed.completion} billed, engines made {made}")


def _no_charge_without_delivery(run: Run, request: Request) -> Iterator[Violation]:
    nothing = request.end is End.REFUSED or (request.end is End.FAILED and not request.arrivals)
    if nothing and not request.key:
        for job in run.jobs_of.get(request.number, ()):
            if job.cost:
                yield _of(request, "I4", f"{job.id} cost {job.cost} for an answer of {request.status} {request.code}")


def _charged_to_somebody(run: Run) -> Iterator[Violation]:
    """Each job that cost something is a request's; some clients left, or were cut off, before they knew which."""
    known = {job.id for jobs in run.jobs_of.values() for job in jobs}
    strange = [job for job in run.evidence.jobs.values() if job.cost and job.id not in known]
    nameless = [
        request for request in run.requests if not request.id and request.end in (End.LEFT, End.BROKEN, End.UNFINISHED)
    ]
    for job in strange[len(nameless) :]:
        yield Violation("I4", job.id, f"cost {job.cost}, and no client has seen anything of it")


def _same_answer_for_a_key(run: Run) -> Iterator[Violation]:
    by_key: dict[str, list[Request]] = defaultdict(list)
    for request in run.requests:
        if request.key and request.end is End.FINISHED:
            by_key[request.key].append(request)
    for same in by_key.values():
        answers = {(request.id, *(request.text(choice) for choice in range(request.choices))) for request in same}
        if len(answers) > 1:
            yield _of(same[0], "I3", f"one idempotency key, {len(answers)} answers: {sorted({r.id for r in same})}")


def _one_bill_for_a_key(run: Run) -> Iterator[Violation]:
    """Of all runs of a key one is billed, and those whose client got a part of an answer, and then an error."""
    by_key: dict[str, list[Request]] = defaultdict(list)
    for request in run.requests:
        if request.key:
            by_key[request.key].append(request)
    for key, same in by_key.items():
        billed = {job.id for request in same for job in run.jobs_of.get(request.number, ()) if job.cost}
        failed = sum(each.end is End.FAILED and each.code != COPY_BROKEN and bool(each.arrivals) for each in same)
        if len(billed) > 1 + failed:
            yield _of(same[0], "I3", f"the runs of {key} were billed {len(billed)} times: {sorted(billed)}")


def check_books(evidence: Evidence) -> Iterator[Violation]:
    """Everything that is wrong with jobs, ledger and accounts of a platform at rest."""
    settled = Counter(row.job for row in evidence.rows if row.kind == "settle")
    amounts = {row.job: row.amount for row in evidence.rows if row.kind == "settle"}
    for job_id, times in settled.items():
        if times > 1:
            yield Violation("I3", job_id, f"settled {times} times")
        if job_id not in evidence.jobs:
            yield Violation("I3", job_id, "in the ledger, and there is no such job")
    for job in evidence.jobs.values():
        if job.state != "settled":
            yield Violation("I5", job.id, f"is {job.state} though all is idle")
            continue
        if job.cost != _price(job) or job.cost > job.hold:
            yield Violation("I3", job.id, f"cost {job.cost}, used {_price(job)}, held {job.hold}")
        if amounts.get(job.id, 0) != job.cost:
            yield Violation("I3", job.id, f"cost {job.cost}, the ledger has {amounts.get(job.id, 0)}")
    for account in evidence.accounts:
        if account.held:
            yield Violation("I5", account.organisation, f"still held: {dict(account.held)}")
        own = sum(job.cost for job in evidence.jobs.values() if job.organisation == account.organisation)
        if account.spent != own:
            yield Violation("I3", account.organisation, f"spent {account.spent}, its jobs cost {own}")
        if min(account.available, evidence.lowest_available) < 0:
            yield Violation(
                "I6", account.organisation, f"available {min(account.available, evidence.lowest_available)}"
            )
    if evidence.audit:
        yield Violation("I3", "headrace audit", evidence.audit)


def _price(job: Job) -> int:
    fresh, cached, output = job.price
    return (job.billed.prompt - job.billed.cached) * fresh + job.billed.cached * cached + job.billed.completion * output


# I7: a poison job, and I8: refusals


def _poison(run: Run, request: Request) -> Iterator[Violation]:
    if request.innocent:
        return
    tried = sum(len(each.submitted) for each in run.counted.get(request.number, ()))
    if tried > POISON_CRASHES:
        yield _of(request, "I7", f"brought {tried} engines down")
    if request.end in (End.REFUSED, End.FAILED) and request.code != "job_failed_repeatedly":
        if not _may_be_refused(request, run.limits):
            yield _of(request, "I7", f"ended with {request.code}")
    elif request.end is End.FINISHED:
        yield _of(request, "I7", "a poison job was answered")


def _refused_in_shape(request: Request) -> Iterator[Violation]:
    if request.end not in (End.REFUSED, End.FAILED):
        return
    if not request.shaped:
        yield _of(request, "I8", f"{request.status}: the error has not OpenAI's shape")
    if request.end is End.REFUSED and request.status in (429, 503) and request.code not in NEVER_RETRY:
        least, most = RETRY_AFTER
        if request.retry_after is None or not least <= request.retry_after <= most:
            yield _of(request, "I8", f"{request.status} {request.code} with Retry-After {request.retry_after}")
    if request.end is End.REFUSED and request.status >= 500 and request.innocent and request.status not in (503, 504):
        yield _of(request, "I8", f"answered {request.status} {request.code}")


def _fast_refusals(run: Run) -> Iterator[Violation]:
    took = sorted(r.ended - r.began for r in run.requests if r.end is End.REFUSED and r.innocent and not r.key)
    if not took or run.limits.refusal_seconds is None:
        return
    median, most = run.limits.refusal_seconds
    if took[len(took) // 2] > median or took[int(len(took) * 0.99)] > most:
        seen = f"{took[len(took) // 2]:.3f} s in the median, {took[int(len(took) * 0.99)]:.3f} s p99"
        yield Violation("I8", "refusals", f"{seen}; allowed {median} and {most}")


# Wasted work


def _ghosts(run: Run, request: Request) -> Iterator[Violation]:
    """Engines stop soon after the last client of an answer has left; a partitioned engine is exempt."""
    if request.key or request.end in (End.UNREACHABLE, End.UNFINISHED):
        return
    grace = run.limits.ghost
    late = 0
    for each in run.counted.get(request.number, ()):
        late += sum(moment > request.ended + grace and not _in_trouble(run, moment, grace) for moment in each.times)
    if late:
        yield _of(request, "ghost", f"{late} tokens were made later than {grace:.0f} s after the client had gone")


def _in_trouble(run: Run, moment: float, grace: float) -> bool:
    """Whether a fault, or its echo, was on at a moment."""
    return any(each.began <= moment <= each.ended + grace for each in run.evidence.struck)


# Figures


def longest_pause(request: Request) -> float:
    """The longest silence between two pieces of a stream, in seconds; slow clients make their own."""
    if not request.streamed or request.act == "slow" or len(request.arrivals) < 2:
        return 0.0
    times = [arrival.at for arrival in request.arrivals]
    return max(later - earlier for earlier, later in pairwise(times))
