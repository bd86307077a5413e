"""What the jobs of one request cost: a hold before they are queued, exactly one receipt or void for each at the end.

A receipt says what the client was told, or would have been: the whole usage of a job that finished; of one that did
not, the prompt and the tokens that were given out, or nothing if there were none
(docs/design/reliability-contract.md#I4). An answer that was to
come whole and did not costs nothing either, unless it is the client who went. Does not know prices, HTTP or the queue.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError, StoreUnavailable
from auth_billing.money.holds import HoldRequest
from gateway.errors import ClientDisconnected
from router.messages import Delta, Embedded, Finished, Outcome, Receipt, Reply, Started, Usage

CHECKPOINT_TOKENS = 64
"""So many tokens of a job that the store does not know of make a checkpoint due."""

_log = structlog.get_logger(__name__)


class Desk(Protocol):
    """Where money is set aside, and where receipts are handed in: none of it is waited for but `reserve`."""

    async def reserve(self, principal: Principal, works: Sequence[HoldRequest]) -> None:
        """Hold the most that the works may cost, all or nothing.

        Raises:
            AccountError: nobody pays for it.
            StoreUnavailable: it is not known whether it was held.
        """

    def hand_in(self, receipt: Receipt) -> None:
        """See that a receipt is published."""

    def void(self, jobs: Sequence[str]) -> None:
        """See that the holds of jobs that were not queued are given back."""

    def running(self, jobs: BilledJobs) -> None:
        """From now on there may be something to checkpoint."""

    def ended(self, jobs: BilledJobs) -> None:
        """And from now on not any more."""

    def checkpoint_soon(self) -> None:
        """A checkpoint is due before its time."""


class _BilledJob:
    """One job, as far as its client has got it."""

    def __init__(self, work: HoldRequest) -> None:
        self.work = work
        self.queued = False
        self.finished: Usage | None = None
        self.checkpointed = 0
        """Tokens that the store knows of."""
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._tokens = 0
        self._embedded: dict[int, int] = {}
        """Tokens of inputs whose vectors were given out, by the first of them."""

    @property
    def begun(self) -> bool:
        """Whether anything of the answer was given out."""
        return self._tokens > 0 or bool(self._embedded)

    @property
    def unknown_tokens(self) -> int:
        """Those given out that the store does not know of."""
        return self._tokens - self.checkpointed

    def take(self, reply: Reply) -> None:
        """Count what is given out by `reply`."""
        match reply:
            case Started():
                self._prompt_tokens = reply.prompt_tokens
            case Delta():
                self._tokens += reply.positions
                self._cached_tokens = max(self._cached_tokens, reply.cached_tokens)
            case Embedded():
                self._embedded[reply.start] = reply.tokens
            case Finished():
                self.finished = self._within_the_hold(reply.usage)

    @property
    def so_far(self) -> Usage:
        """What was given out; nothing while there is no token of it."""
        if not self.begun:
            return Usage(prompt_tokens=0)
        if self._embedded:
            return self._within_the_hold(Usage(prompt_tokens=sum(self._embedded.values())))
        return self._within_the_hold(
            Usage(
                prompt_tokens=self._prompt_tokens,
                completion_tokens=self._tokens,
                cached_tokens=min(self._cached_tokens, self._prompt_tokens),
            )
        )

    def _within_the_hold(self, usage: Usage) -> Usage:
        """Nobody is told of more than what was set aside, nor pays it: that would be our mistake, or a worker's lie."""
        most = self.work.max_usage
        if usage.prompt_tokens <= most.prompt_tokens and usage.completion_tokens <= most.completion_tokens:
            return usage
        _log.error("a job used more than was set aside for it", job=self.work.job, used=usage, most=most)
        prompt = min(usage.prompt_tokens, most.prompt_tokens)
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=min(usage.completion_tokens, most.completion_tokens),
            cached_tokens=min(usage.cached_tokens, prompt),
        )


class BilledJobs:
    """The jobs of one request, by their number. `close` is called once, whatever becomes of them."""

    def __init__(self, desk: Desk, principal: Principal, works: Sequence[HoldRequest], *, streamed: bool) -> None:
        """`streamed`: the client has what was given out, even if there is no more."""
        self._desk = desk
        self._principal = principal
        self._streamed = streamed
        self._jobs = [_BilledJob(work) for work in works]
        self._may_be_held = False

    @property
    def usage(self) -> Usage:
        """What the client is told at the end: that of all jobs that finished."""
        return _sum(job.finished for job in self._jobs if job.finished is not None)

    @property
    def so_far(self) -> Usage:
        """What was given out until now, of all jobs."""
        return _sum(job.finished or job.so_far for job in self._jobs)

    async def reserve(self) -> None:
        """Hold the most that they may cost; see `Desk.reserve`."""
        self._may_be_held = True
        try:
            await self._desk.reserve(self._principal, [job.work for job in self._jobs])
        except StoreUnavailable:
            raise  # it may be held all the same
        except AccountError:
            self._may_be_held = False
            raise
        self._desk.running(self)

    def queued(self, number: int) -> None:
        """The broker has one of them for sure."""
        self._jobs[number].queued = True

    def take(self, number: int, reply: Reply) -> None:
        """A reply about one of them is given out, or noted if it is nothing that a client sees."""
        job = self._jobs[number]
        job.take(reply)
        if job.unknown_tokens >= CHECKPOINT_TOKENS:
            self._desk.checkpoint_soon()

    def unknown_usage(self) -> Mapping[str, Usage]:
        """By job, what was given out and is not known to the store."""
        return {job.work.job: job.so_far for job in self._jobs if job.unknown_tokens > 0}

    def checkpointed(self, known: Mapping[str, Usage]) -> None:
        """The store knows so much now."""
        for job in self._jobs:
            if (usage := known.get(job.work.job)) is not None:
                job.checkpointed = usage.completion_tokens

    def close(self, error: Exception) -> None:
        """Settle all of them; `error` is what ended those that have not finished."""
        self._desk.ended(self)
        if not self._may_be_held:
            return
        if void := [job.work.job for job in self._jobs if not job.queued]:
            self._desk.void(void)
        failed = any(job.finished is None for job in self._jobs)
        pays = self._streamed or not failed or isinstance(error, ClientDisconnected)
        for job in self._jobs:
            if job.queued:
                self._desk.hand_in(self._receipt(job, error, pays=pays))

    def _receipt(self, job: _BilledJob, error: Exception, *, pays: bool) -> Receipt:
        outcome = Outcome.FINISHED
        if job.finished is None:
            outcome = Outcome.CANCELLED if isinstance(error, ClientDisconnected) else Outcome.FAILED
        usage = job.finished or job.so_far
        return Receipt(
            job=job.work.job,
            tenant=self._principal.tenant,
            gateway=job.work.gateway,
            outcome=outcome,
            usage=usage if pays else Usage(prompt_tokens=0),
            at=time.time(),
        )


def _sum(usages: Iterable[Usage]) -> Usage:
    total = Usage(prompt_tokens=0)
    for each in usages:
        total = Usage(
            prompt_tokens=total.prompt_tokens + each.prompt_tokens,
            completion_tokens=total.completion_tokens + each.completion_tokens,
            cached_tokens=total.cached_tokens + each.cached_tokens,
        )
    return total
