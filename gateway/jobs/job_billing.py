"""Bills one request's jobs: a credit hold before they are queued, and exactly one receipt or void for each at the end.

A receipt states the usage that the client received: the whole usage of a finished job; of any other job the prompt and
the delivered tokens, or nothing if no token was delivered (docs/design/reliability-contract.md#I4); and of each job
what its delivered steps used, by model. A response that is not streamed and fails costs nothing, unless a client that
waited for it disconnected. The end of an answer is delivered after its receipts are confirmed, so that it is billed
even if the gateway dies (docs/design/money.md#settlement). Receipts of a request with an idempotency key are withheld
until its answer is stored (`keyed_billing.py`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec
import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError, StoreUnavailable
from auth_billing.money.holds import HoldRequest
from auth_billing.money.job_write_buffer import FLUSH_DELAY
from gateway.errors import ClientDisconnected
from gateway.jobs.keyed_billing import KeyedBilling
from router.messages import (
    Delta,
    Drawn,
    Embedded,
    Finished,
    Outcome,
    Receipt,
    Reply,
    ReportedUsage,
    Scored,
    Started,
    Step,
    Usage,
    UsagePart,
)
from router.usage_arithmetic import NO_USAGE, JobUsage, exceeds, least, least_parts, merged, total

CHECKPOINT_TOKENS = 64
"""Delivered tokens of a job since its last checkpoint that make the next one due."""

_log = structlog.get_logger(__name__)


class BillingPort(Protocol):
    """Interface of a gateway's billing, as `RequestBilling` uses it; only `reserve` waits for the store."""

    async def reserve(self, principal: Principal, holds: Sequence[HoldRequest]) -> None:
        """Hold credit for the most that the jobs of `holds` may cost together, all or none.

        Raises:
            AccountError: the account can't pay.
            StoreUnavailable: it is not known whether the credit was held.
        """

    async def flush_jobs(self, jobs: Collection[str]) -> None:
        """Wait until the holds and documents of the jobs with these ids are stored.

        Raises:
            StoreUnavailable: some may be unwritten; repeat the call.
        """

    def submit_receipt(self, receipt: Receipt) -> asyncio.Event:
        """Publish one receipt, which settles its job, in the background; retry until the broker confirms it.

        Return an event that is set when the broker has confirmed the receipt.
        """

    def void(self, jobs: Sequence[str]) -> None:
        """Release the credit holds of `jobs` (ids), which were never queued, in the background."""

    def started(self, request: RequestBilling) -> None:
        """Include a request in the checkpoints that store delivered usage, from now on."""

    def ended(self, request: RequestBilling) -> None:
        """Exclude a request, which has ended, from the checkpoints that store delivered usage."""

    def checkpoint_soon(self) -> None:
        """Have the next checkpoint written earlier than scheduled, because many tokens were delivered."""


class _BilledJob:
    """Usage of one job, counted as its output is delivered."""

    def __init__(self, hold: HoldRequest) -> None:
        self.hold = hold
        self.queued = False
        self.finished: Usage | None = None
        self.checkpointed = JobUsage(NO_USAGE)
        """The delivered usage in the last stored checkpoint."""
        self.parts: tuple[UsagePart, ...] = ()
        """Usage of the delivered steps and of the checks, by model."""
        self.checks: tuple[UsagePart, ...] = ()
        """Usage of the moderation of prompts and answers, by model."""
        self.carried: tuple[UsagePart, ...] = ()
        """What jobs of gateways that died have used for the same answer, by model."""
        self.reported: ReportedUsage | None = None
        """What the worker of the finished job reported."""
        self._reported_parts: tuple[UsagePart, ...] = ()
        """What workers reported of the delivered steps, by model: `parts` before they are capped."""
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._tokens = 0
        self._shown_tokens = 0
        """Tokens of the longest path that delivered steps of a search have shown: the answer's, if it is that path."""
        self._inputs: dict[int, int] = {}
        """Tokens of the inputs whose vectors or scores were delivered, by the number of the first input."""
        self._drawn = 0
        """Number of delivered images."""

    @property
    def begun(self) -> bool:
        """Whether any output of the job was delivered to the client."""
        return self._delivered_tokens > 0 or bool(self._inputs) or self._drawn > 0

    @property
    def _delivered_tokens(self) -> int:
        """Number of delivered tokens of the answer, or of a path that may become it."""
        return max(self._tokens, self._shown_tokens)

    @property
    def unsaved_tokens(self) -> int:
        """Number of tokens delivered to the client since the job's last stored checkpoint."""
        return self._delivered_tokens - self.checkpointed.answer.completion_tokens

    @property
    def is_saved(self) -> bool:
        """Whether the job's last stored checkpoint has all that was delivered."""
        return self.unsaved_tokens <= 0 and self.parts == self.checkpointed.parts

    def take(self, reply: Reply) -> None:
        """Count the output that one reply about the job delivers to the client."""
        match reply:
            case Started():
                self._prompt_tokens = reply.prompt_tokens
            case Delta(step=Step() as step):
                self._shown_tokens = max(self._shown_tokens, step.shown_tokens)
                if step.state.ended and step.parts:
                    self._reported_parts = merged([*self._reported_parts, *step.parts])
                    self._sum_parts()
            case Delta():
                self._tokens += reply.positions
                self._cached_tokens = max(self._cached_tokens, reply.cached_tokens)
            case Embedded() | Scored():
                self._inputs[reply.start] = reply.tokens
            case Drawn():
                self._drawn += len(reply.images)
            case Finished():
                self.finished = self._capped(reply.usage)
                self.reported = ReportedUsage(attempt=reply.attempt_id, usage=reply.usage, parts=self._reported_parts)

    @property
    def so_far(self) -> Usage:
        """Usage of the job's delivered output; zero before the first token."""
        if not self.begun:
            return NO_USAGE
        if self._inputs:
            return self._capped(Usage(prompt_tokens=sum(self._inputs.values())))
        if self._drawn:  # all of one size, that of the hold
            return self._capped(Usage(prompt_tokens=0, units=dict.fromkeys(self.hold.max_usage.units, self._drawn)))
        return self._capped(
            Usage(
                prompt_tokens=self._prompt_tokens,
                completion_tokens=self._delivered_tokens,
                cached_tokens=min(self._cached_tokens, self._prompt_tokens),
            )
        )

    def _capped(self, usage: Usage) -> Usage:
        """Cap `usage` at the hold: no client is billed for more, even if a faulty worker reports it."""
        bound = self.hold.max_usage
        if not exceeds(usage, bound):
            return usage
        _log.error("job used more than its hold", job=self.hold.job, used=usage, most=bound)
        return least(usage, bound)

    def add_check(self, part: UsagePart) -> None:
        """Count what one check of the prompt or the answer used."""
        self.checks = merged([*self.checks, part])
        self._sum_parts()

    def _sum_parts(self) -> None:
        parts = merged([*self._reported_parts, *self.checks])
        self.parts = least_parts(parts, self.hold.max_parts)
        if self.parts != parts:
            _log.error("steps used more than their hold", job=self.hold.job, used=parts, most=self.hold.max_parts)


class RequestBilling:
    """Billing of one request's jobs, numbered from 0. Call `close` exactly once, however the request ends."""

    def __init__(
        self,
        port: BillingPort,
        principal: Principal,
        holds: Sequence[HoldRequest],
        *,
        streamed: bool,
        keyed: KeyedBilling | None = None,
    ) -> None:
        """`streamed`: the client gets output at once, and pays for it even if the request fails later.

        `keyed` submits the receipts later, if the request has an idempotency key.
        """
        self.receipts: list[Receipt] = []
        """The receipts of an ended request, until they are submitted."""
        self._keyed = keyed
        self._port = port
        self._principal = principal
        self._streamed = streamed
        self._jobs = [_BilledJob(hold) for hold in holds]
        self._may_be_held = False
        self._held_at = math.inf
        """Monotonic time at which the holds were taken."""
        self._confirmations: list[asyncio.Event] = []
        """For each submitted receipt, whether the broker has confirmed it."""

    @property
    def usage(self) -> Usage:
        """Total final usage of the request's finished jobs (one job per prompt), which the response reports."""
        return total(job.finished for job in self._jobs if job.finished is not None)

    @property
    def so_far(self) -> Usage:
        """Total usage of all jobs of the request: final usage of finished ones, delivered output of the others."""
        return total(job.finished or job.so_far for job in self._jobs)

    @property
    def parts(self) -> tuple[UsagePart, ...]:
        """Total usage of the steps of the request's jobs until now, by model, reported beside `usage`."""
        return merged(part for job in self._jobs for part in job.parts)

    @property
    def bounds(self) -> list[Usage]:
        """The most that each job can use for its answer, in order of the jobs; their holds cover it."""
        return [job.hold.max_usage for job in self._jobs]

    async def reserve(self) -> None:
        """Hold credit for the most that the request's jobs may cost.

        Raises:
            AccountError: the account can't pay.
            StoreUnavailable: it is not known whether the credit was held.
        """
        self._may_be_held = True
        try:
            await self._port.reserve(self._principal, [job.hold for job in self._jobs])
        except StoreUnavailable:
            raise  # the store may have taken the hold
        except AccountError:
            self._may_be_held = False
            raise
        self._held_at = time.monotonic()
        self._port.started(self)

    def cover_checks(self, bound: Sequence[UsagePart]) -> None:
        """Have the request's hold cover the most that the moderation of its prompts and answers is billed, by model."""
        first = self._jobs[0]
        first.hold = replace(first.hold, max_parts=merged([*first.hold.max_parts, *bound]))

    def carry(self, parts: Sequence[UsagePart]) -> None:
        """Bill and hold what other jobs have used, whose gateway died before their receipts, with the first job."""
        first = self._jobs[0]
        first.carried = merged(parts)
        first.hold = replace(first.hold, max_parts=merged([*first.hold.max_parts, *parts]))

    def add_check(self, part: UsagePart) -> None:
        """Bill what one check of the request's prompts or answers used, as a part of its first job."""
        self._jobs[0].add_check(part)

    def queued(self, number: int) -> None:
        """Record that the broker confirmed job `number`, so that a receipt will settle its hold instead of a void."""
        self._jobs[number].queued = True

    def take(self, number: int, reply: Reply) -> None:
        """Count the tokens, or the step, of one reply about job `number` as delivered to the client."""
        job = self._jobs[number]
        job.take(reply)
        if job.unsaved_tokens >= CHECKPOINT_TOKENS or job.parts != job.checkpointed.parts:
            self._port.checkpoint_soon()

    def unsaved_usage(self) -> Mapping[str, JobUsage]:
        """Return the usage so far, by job id, of the jobs that delivered output since their last stored checkpoint."""
        return {job.hold.job: JobUsage(job.so_far, job.parts) for job in self._jobs if not job.is_saved}

    def checkpointed(self, saved: Mapping[str, JobUsage]) -> None:
        """Record the usage, by job id, that a checkpoint has stored for the request's jobs."""
        for job in self._jobs:
            if (usage := saved.get(job.hold.job)) is not None:
                job.checkpointed = usage

    def close(self, error: Exception) -> None:
        """End the billing: void the holds of jobs that were not queued, and submit the receipts of the others.

        Receipts of a request with an idempotency key are withheld until its answer is stored. `error` is the reason why
        unfinished jobs have ended.
        """
        self._port.ended(self)
        if not self._may_be_held:
            return
        if void := [job.hold.job for job in self._jobs if not job.queued]:
            self._port.void(void)
        failed = any(job.finished is None for job in self._jobs)
        # A line or passage that its gateway abandons is requested again by the one that has the lease now.
        left = isinstance(error, ClientDisconnected) and not self._principal.in_background
        pays = self._streamed or not failed or left
        self.receipts = [self._receipt(job, error, pays=pays) for job in self._jobs if job.queued]
        if self._keyed is None:
            self.submit()
        else:
            self._keyed.withhold(self)

    async def wait_for_jobs(self) -> None:
        """Wait until holds and documents of the receipts' jobs are stored, so that the sweeper can settle them.

        Raises:
            StoreUnavailable: some may be unwritten; repeat the call.
        """
        await self._port.flush_jobs([receipt.job for receipt in self.receipts])

    def submit(self, *, pays: bool = True) -> None:
        """Submit the ended request's receipts to be published; unless the tenant `pays`, they state no usage."""
        receipts, self.receipts = self.receipts, []
        for each in receipts:
            free = msgspec.structs.replace(each, usage=NO_USAGE, parts=[], reported=None, outcome=Outcome.CANCELLED)
            self._confirmations.append(self._port.submit_receipt(each if pays else free))

    async def wait_for_receipts(self, seconds: float) -> None:
        """Wait, at most `seconds`, until the broker has confirmed the request's receipts, so that none can be lost.

        Returns at once if the jobs are so young that their documents, which receipts wait for, are not due.
        """
        if time.monotonic() - self._held_at < FLUSH_DELAY:
            return
        try:
            async with asyncio.timeout(seconds):
                for confirmed in self._confirmations:
                    await confirmed.wait()
        except TimeoutError:
            _log.warning("answer ends before its receipt is confirmed", job=self._jobs[0].hold.job, seconds=seconds)

    def _receipt(self, job: _BilledJob, error: Exception, *, pays: bool) -> Receipt:
        outcome = Outcome.FINISHED
        if job.finished is None:
            outcome = Outcome.CANCELLED if isinstance(error, ClientDisconnected) else Outcome.FAILED
        usage, reported = job.finished or job.so_far, job.reported
        if reported is not None:
            reported = msgspec.structs.replace(reported, checks=merged([*job.checks, *job.carried]))
        return Receipt(
            job=job.hold.job,
            tenant=self._principal.tenant,
            gateway=job.hold.gateway,
            outcome=outcome,
            usage=usage if pays else NO_USAGE,
            parts=list(merged([*job.parts, *job.carried])) if pays else [],
            reported=reported if pays else None,
            at=time.time(),
        )
