"""One request's jobs, from publishing to exactly one outcome: finished, or one error.

Owns the deadline, the watch for lost workers, and the cancel that follows every end that is not the workers' own.
Does not know HTTP, SSE, or in which shape the answer is given.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import structlog

from gateway.admission.publish_queue import PublishQueue, QueuedJob
from gateway.admission.queue_estimator import QueueEstimate, QueueEstimator
from gateway.errors import (
    ClientDisconnected,
    DeadlinePassed,
    GenerationError,
    JobCancelled,
    JobFailed,
    ModelUnavailable,
    NotQueued,
    UpstreamUnreachable,
    WorkerLost,
)
from gateway.jobs.billed_jobs import BilledJobs
from gateway.jobs.echoed_prompt import EchoedPrompt
from gateway.jobs.mailbox import Arrival
from gateway.jobs.reply_inbox import ReplyInbox
from gateway.metrics import GatewayMetrics
from router import control_targets
from router.bus import Bus
from router.errors import BrokerUnavailable, PublishError
from router.messages import (
    Cancel,
    Cancelled,
    Delta,
    Embedded,
    Failed,
    Finished,
    Job,
    PromptEcho,
    PromptLogprobs,
    Reply,
    Usage,
)
from router.model_registry import ModelRegistry
from router.transport.base import ConnectionState

T = TypeVar("T")

WATCH_SECONDS = 1.0
"""How often a silent generation looks whether anybody is still there."""

UNREACHABLE_SECONDS = 60.0
"""So long an answer waits for a broker that is away (docs/design/reliability-contract.md#F10, F11)."""

_log = structlog.get_logger(__name__)


class ChoiceDelta(NamedTuple):
    """A delta of a choice of the answer, which is: prompt times `n` plus the job's own choice."""

    choice: int
    delta: Delta


class Generations:
    """Opens generations: what they have in common."""

    def __init__(
        self,
        bus: Bus,
        inbox: ReplyInbox,
        models: ModelRegistry,
        metrics: GatewayMetrics,
        queues: QueueEstimator,
        *,
        no_worker_timeout: float,
    ) -> None:
        self.bus = bus
        self.inbox = inbox
        self.models = models
        self.metrics = metrics
        self.queues = queues
        self.no_worker_timeout = no_worker_timeout
        self.fair = PublishQueue(models, queues.other_gateways)
        metrics.held.set_function(lambda: self.fair.waiting)

    def open(self, jobs: Sequence[Job], bill: BilledJobs) -> Generation:
        """Open the mailbox of a request's jobs (all of one model and class, with equal `n`). Publish them next.

        They are in line from now on: open it without waiting for anything since they were admitted.
        """
        return Generation(self, jobs, bill)


class Generation:
    """Publish, then iterate once; `usage` is true after that. Iterating to an end closes it; else its owner must.

    A batch is all that has come since the last one.
    """

    def __init__(self, shared: Generations, jobs: Sequence[Job], bill: BilledJobs) -> None:
        self.jobs = jobs
        self.prompts = [EchoedPrompt() for _ in jobs]
        """What is told of each job's prompt, if that is asked for; complete before its first delta is given out."""
        self._shared = shared
        self._bill = bill
        self._mailbox = shared.inbox.open(jobs)
        self._line = shared.queues.enter(jobs)
        self._unfinished = len(jobs)
        self._opened = time.monotonic()
        self._heard = self._opened
        self._broker_away = -math.inf
        """When the broker was last seen to be."""
        self._deadline = self._opened + max(0.0, jobs[0].deadline - time.time())
        self._begin_by = self._opened + max(0.0, (jobs[0].begin_by or jobs[0].deadline) - time.time())
        self._tokens = 0
        self._streamed = shared.metrics.tokens.labels(self.model)
        self._failure: GenerationError | None = None
        """What a worker said that ends it; given out after what came before."""
        self._turns: list[QueuedJob] = []
        self._in_turn: asyncio.Task[None] | None = None
        """Publishes those that have to wait for their turn."""
        self._published = False
        self._closed = False
        self._on_close: Callable[[], object] = lambda: None

    @property
    def model(self) -> str:
        """The model asked."""
        return self.jobs[0].model

    @property
    def waiting(self) -> QueueEstimate | None:
        """How it stands in line; `None` if it is not in line: a worker has begun with it, or it has ended.

        Exact as far as this gateway's jobs go; see `queue_estimator.py`.
        """
        model = self._shared.models.find(self.model)
        if self._closed or model is None or self._is_begun:
            return None
        return self._shared.queues.estimate(model, self.jobs[0].service_class, self._line)

    @property
    def usage(self) -> Usage:
        """What was used, of all jobs that have finished; it is what they are billed."""
        return self._bill.usage

    def tokens_used(self) -> int:
        """Of prompts and answers, by now: what limits on tokens count."""
        used = self._bill.so_far
        return used.prompt_tokens + used.completion_tokens

    async def publish(self, headers: Mapping[str, str]) -> None:
        """Set aside what the jobs may cost, then queue them, confirmed. Close this whatever is raised.

        Those whose tenant's turn has not come are queued when it does; what goes wrong then ends it like any failure.

        Raises:
            AccountError: nobody pays for them, or that is not known.
            GenerationError: it has failed meanwhile.
            PublishError: at least one may not be queued.
        """
        await self._bill.reserve()
        self._mailbox.peek()
        self._mailbox.headers = headers
        self._turns = [self._shared.fair.enter(job) for job in self.jobs]
        come = [number for number, turn in enumerate(self._turns) if turn.released]
        if len(come) < len(self.jobs):
            self._in_turn = asyncio.create_task(self._publish_in_turn(set(range(len(self.jobs))).difference(come)))
        await self._publish(come)

    async def _publish(self, numbers: Sequence[int]) -> None:
        self._published = self._published or bool(numbers)
        headers = self._mailbox.headers
        results = await asyncio.gather(
            *(self._shared.bus.publish_job(self.jobs[number], headers) for number in numbers), return_exceptions=True
        )
        for number, result in zip(numbers, results, strict=True):
            if result is None:
                self._mailbox.progress[self.jobs[number].id].queued()
                self._bill.queued(number)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _publish_in_turn(self, numbers: Iterable[int]) -> None:
        async def publish(number: int) -> None:
            await self._turns[number].wait()
            await self._publish([number])

        try:
            await asyncio.gather(*map(publish, numbers))
        except PublishError as error:
            _log.warning("a job could not be queued when its turn came", job=self.jobs[0].id, reason=str(error))
            self._mailbox.fail(NotQueued())

    async def begun(self, seconds: float) -> None:
        """Wait for the worker's first word, `seconds` at most. What is wrong by then is still worth a status line.

        What failed after its first token is not: those tokens are the client's, and the error comes after them.

        Raises:
            GenerationError: it has failed already.
        """
        await self._mailbox.news(min(seconds, max(0.0, self._deadline - time.monotonic())))
        for arrival in self._mailbox.peek():
            if isinstance(arrival.reply, Delta):
                return
            if isinstance(arrival.reply, Failed):
                raise JobFailed(arrival.reply)

    def batches(self) -> AsyncIterator[list[ChoiceDelta]]:
        """Everything that the workers say, in order. The last batch may be empty.

        Raises:
            GenerationError: it has failed; what came before was given out.
        """
        return self._until_end(self._deltas)

    def vectors(self) -> AsyncIterator[list[Embedded]]:
        """The vectors of an embedding job, in any order; raises as `batches` does."""
        return self._until_end(self._embedded)

    @property
    def finished(self) -> bool:
        """Whether all jobs have: the batch that was given out last is the end of the answer."""
        return not self._unfinished

    def abandon(self) -> None:
        """Its client has gone: what is unread is not given out, and whoever waits for it gets `ClientDisconnected`."""
        self._mailbox.abandon(ClientDisconnected())

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call `callback` when it is closed, however it ends."""
        self._on_close = callback

    def close(self, error: Exception | None = None) -> None:
        """Forget the jobs, and cancel those that have not ended. Idempotent; the first outcome counts."""
        if self._closed:
            return
        self._closed = True
        self._on_close()
        self._shared.inbox.close(self.jobs)
        self._line.leave()
        if self._in_turn is not None:
            self._in_turn.cancel()
        for turn in self._turns:
            turn.leave()
        if self._published:
            self._cancel_unfinished()
        self._bill.close(error or ClientDisconnected())
        outcome = "finished" if not self._unfinished else type(error or ClientDisconnected()).__name__
        self._shared.metrics.outcomes.labels(self.model, outcome).inc()
        _log.info(
            "generation ended",
            job=self.jobs[0].id,
            tenant=self.jobs[0].tenant,
            model=self.model,
            outcome=outcome,
            tokens=self._tokens,
            seconds=round(time.monotonic() - self._opened, 3),
        )

    @property
    def _is_begun(self) -> bool:
        """Whether a worker has given one of the jobs a place."""
        return any(job.attempt for job in self._mailbox.progress.values())

    @property
    def _somebody_is_there(self) -> bool:
        """Whether a worker could begin or go on with it."""
        model = self._shared.models.find(self.model)
        return model is not None and model.alive

    async def _arrivals(self) -> list[Arrival]:
        remaining = (self._deadline if self._is_begun else self._begin_by) - time.monotonic()
        if remaining <= 0:
            raise DeadlinePassed if self._is_begun or self._somebody_is_there else ModelUnavailable()
        if await self._mailbox.news(min(remaining, WATCH_SECONDS)):
            self._heard = time.monotonic()
            return self._mailbox.take_all()
        self._check_silence()
        return []

    async def _until_end(self, read: Callable[[list[Arrival]], list[T]]) -> AsyncIterator[list[T]]:
        """What `read` makes of all that arrives, until the jobs have ended."""
        try:
            while self._unfinished:
                arrivals = await self._arrivals()
                for number, reply in arrivals:
                    self._bill.take(number, reply)
                    self._turns[number].charge(reply)
                    if isinstance(reply, Finished):
                        self._turns[number].leave()
                news = read(arrivals)
                if news or self.finished:
                    yield news
                if self._failure is not None:
                    raise self._failure
        except GenerationError as error:
            self.close(error)
            raise
        self.close()

    def _embedded(self, arrivals: list[Arrival]) -> list[Embedded]:
        """The vectors among `arrivals`; what else was said is noted."""
        vectors = []
        for _, reply in arrivals:
            if isinstance(reply, Embedded):
                vectors.append(reply)
                self._line.begun(reply.job_id)
            else:
                self._note(reply)
        return vectors

    def _deltas(self, arrivals: list[Arrival]) -> list[ChoiceDelta]:
        """The deltas among `arrivals`; what else was said is noted."""
        deltas = []
        for number, reply in arrivals:
            if isinstance(reply, Delta):
                self._line.begun(reply.job_id)
                deltas.append(ChoiceDelta(number * self.jobs[0].n + reply.choice, reply))
            elif isinstance(reply, PromptEcho | PromptLogprobs):
                self.prompts[number].take(reply)
            else:
                self._note(reply)
        if deltas:
            self._count(sum(delta.positions for _, delta in deltas))
        return deltas

    def _check_silence(self) -> None:
        """Give up what nobody can be working at; while the broker is away that is not known for longer."""
        now = time.monotonic()
        silence = now - self._heard
        if self._shared.bus.state is not ConnectionState.UP:
            self._broker_away = now
            if silence >= UNREACHABLE_SECONDS and not self._somebody_is_there:
                raise UpstreamUnreachable
            return
        if silence < self._shared.no_worker_timeout or self._somebody_is_there:
            return
        if now - max(self._broker_away, self._shared.bus.lost_at) < self._shared.no_worker_timeout:
            return  # workers have to come back too
        raise WorkerLost if any(job.worker for job in self._mailbox.progress.values()) else ModelUnavailable()

    def _count(self, tokens: int) -> None:
        if not self._tokens and tokens:
            self._shared.metrics.first_token_seconds.labels(self.model).observe(time.monotonic() - self._opened)
        self._tokens += tokens
        self._streamed.inc(tokens)

    def _note(self, reply: Reply) -> None:
        match reply:
            case Finished():
                self._unfinished -= 1
                self._shared.queues.record_answer(self.model, reply.usage.completion_tokens / self.jobs[0].n)
            case Failed():
                self._failure = self._failure or JobFailed(reply)
            case Cancelled():
                self._failure = self._failure or JobCancelled()

    def _cancel_unfinished(self) -> None:
        for job in self.jobs:
            progress = self._mailbox.progress[job.id]
            if progress.ended:
                continue
            target = control_targets.worker(progress.worker) if progress.worker else control_targets.model(job.model)
            try:
                self._shared.bus.send_control(target, Cancel(job=job.id))
            except BrokerUnavailable:
                _log.info("cancel not sent", job=job.id)
