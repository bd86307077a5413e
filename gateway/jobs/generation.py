"""Generation of one request's answer: publishes its jobs, reads the replies, ends with success or exactly one error.

Enforces the deadline, detects that no worker is left, and cancels the jobs whenever the workers did not end them. The
last output is returned when the request's receipts are confirmed, so that what a client gets is billed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import structlog

from gateway import errors
from gateway.admission.publish_queue import QueuedJob
from gateway.admission.queue_estimator import QueueEstimate
from gateway.jobs.generation_services import GenerationServices
from gateway.jobs.job_billing import RequestBilling
from gateway.jobs.prompt_echo import EchoedPrompt
from gateway.moderation.answer_guard import AnswerGuard
from gateway.moderation.moderation import RequestModeration
from router.errors import MessageTooLarge, PublishError
from router.messages import (
    Cancelled,
    Delta,
    Drawn,
    Embedded,
    Failed,
    Finished,
    Job,
    PromptEcho,
    PromptLogprobs,
    Reply,
    Scored,
    Tokenised,
    Usage,
    UsagePart,
)
from router.producer.errors import GenerationError, JobCancelled, JobFailed, NotQueued
from router.producer.recovery_events import JobQueued
from router.producer.reply_reader import ReplyReader
from router.producer.unread_replies import Arrival

T = TypeVar("T")
R = TypeVar("R", Embedded, Scored, Drawn, Tokenised)

_log = structlog.get_logger(__name__)


class ChoiceDelta(NamedTuple):
    """New tokens of one choice of the answer; `choice` is the prompt's number times `n` plus the choice's number."""

    choice: int
    delta: Delta


class Generation:
    """The jobs of one request (all of one model and class, with equal `n`), open for replies from the start.

    Call `publish`, then iterate once over `batches`, `vectors`, `scores`, `tokenised` or `images`; `usage` is final
    after that. Iterating to the end closes the generation, else its owner must. The constructor enters the jobs in the
    estimated queue.
    """

    def __init__(self, services: GenerationServices, jobs: Sequence[Job], billing: RequestBilling) -> None:
        self.jobs = jobs
        self.prompts = [EchoedPrompt() for _ in jobs]
        """The prompt of each job as its worker reports it, if requested; complete before the job's first delta."""
        self._services = services
        self._billing = billing
        self._open = services.inbox.open(jobs)
        self._unread = self._open[0].unread
        self._reader = ReplyReader(services.replies, self._open)
        self._queued = services.queues.enter(jobs)
        self._unfinished = len(jobs)
        self._tokens = 0
        self.first_token_seconds: float | None = None
        """Seconds from the request's submission to its first token; `None` before."""
        self._streamed = services.metrics.tokens.labels(self.model)
        self._failure: GenerationError | None = None
        """A worker's terminal error; raised after the output before it."""
        self._queue_entries: list[QueuedJob] = []
        self._publishing: asyncio.Task[None] | None = None
        """Task that publishes the jobs which the publish queue releases later."""
        self._published = False
        self._closed = False
        self._moderation: RequestModeration | None = None
        self._guard: AnswerGuard | None = None
        self._is_blocked = False
        """Whether moderation ended the answer before the jobs finished."""
        self._on_close: Callable[[], object] = lambda: None

    @property
    def model(self) -> str:
        """Name of the model that the request names and whose workers answer it."""
        return self.jobs[0].model

    @property
    def waiting(self) -> QueueEstimate | None:
        """Queue position and estimated wait; `None` once a worker has started a job or the generation is closed."""
        model = self._services.models.find(self.model)
        if self._closed or model is None or self._reader.is_begun:
            return None
        return self._services.queues.estimate(model, self.jobs[0].service_class, self._queued)

    @property
    def seconds(self) -> float:
        """Seconds since the request's submission."""
        return time.monotonic() - self._reader.opened

    @property
    def usage(self) -> Usage:
        """Total usage of the request's finished jobs, which the response reports and the client is billed for."""
        return self._billing.so_far if self._is_blocked else self._billing.usage

    @property
    def parts(self) -> Sequence[UsagePart]:
        """Total usage of the jobs' steps until now, by model, for which the client is billed in addition to `usage`."""
        return self._billing.parts

    @property
    def usage_so_far(self) -> Usage:
        """Total usage of the request until now: final usage of finished jobs, delivered output of the others."""
        return self._billing.so_far

    def deliver(self, deltas: Sequence[Delta]) -> None:
        """Count `deltas` of the only job, which continues after them, as delivered to the client by this request."""
        for delta in deltas:
            self._billing.take(0, delta)
        if self._guard is not None:
            self._guard.resume([(delta.choice, delta) for delta in deltas])

    def moderate(self, moderation: RequestModeration) -> None:
        """Have the prompts checked by `publish` and the answers before they are returned; call it before `publish`."""
        self._moderation, self._guard = moderation, moderation.guard
        self._billing.cover_checks(moderation.bound)
        moderation.used = self._billing.add_check

    async def publish(self, headers: Mapping[str, str]) -> None:
        """Hold credit for the request's jobs, then publish them, with confirms.

        Close the generation also if this raises.

        A job that has to wait for capacity is published later, in the background; an error then ends the generation.

        Raises:
            AccountError: the account can't pay, or the store did not answer.
            PromptBlocked, ModerationUnavailable: moderation refuses the prompt, or is not available.
            RequestTooLarge: a job is larger than the broker accepts.
            GenerationError: the request failed while credit was held.
            PublishError: the broker did not confirm at least one job.
        """
        await self._billing.reserve()
        if self._moderation is not None:
            await self._unread.complete(self._moderation.check_prompts())
        self._unread.peek()
        for job in self._open:
            job.headers = headers
        self._queue_entries = [self._services.publish_queue.enter(job) for job in self.jobs]
        released = [number for number, entry in enumerate(self._queue_entries) if entry.released]
        if len(released) < len(self.jobs):
            waiting = set(range(len(self.jobs))).difference(released)
            self._publishing = asyncio.create_task(self._publish_when_released(waiting))
        if len(released) == 1:  # in this task: another one would start only in the event loop's next turn
            await self._publish_job(released[0])
            return
        for result in await asyncio.gather(*map(self._publish_job, released), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _publish_job(self, number: int) -> None:
        self._published = True
        try:
            await self._services.bus.publish_job(self.jobs[number], self._open[number].headers)
        except MessageTooLarge as error:
            raise errors.RequestTooLarge from error
        self._open[number].recovery.receive(JobQueued(), time.monotonic())
        self._billing.queued(number)

    async def _publish_when_released(self, numbers: Iterable[int]) -> None:
        async def publish(number: int) -> None:
            await self._queue_entries[number].wait()
            await self._publish_job(number)

        # Unlike a task group's, the tasks of `gather` are cancelled at once with this one, before `close` goes on.
        publishing = [asyncio.create_task(publish(number)) for number in numbers]
        try:
            await asyncio.gather(*publishing)
        except errors.RequestTooLarge as error:
            self._unread.fail(error)
        except PublishError as error:
            _log.warning("waiting job not published", job=self.jobs[0].id, reason=str(error))
            self._unread.fail(NotQueued())
        except Exception:  # noqa: BLE001 - else the request would wait for its deadline
            _log.exception("waiting job not published", job=self.jobs[0].id)
            self._unread.fail(NotQueued())
        finally:
            for task in publishing:
                task.cancel()

    async def wait_for_first_reply(self, seconds: float) -> None:
        """Wait at most `seconds` for the first reply to the request, so that an early error becomes a status code.

        An error after the first token is not raised here: the client gets those tokens first.

        Raises:
            GenerationError: the request has failed.
        """
        await self._unread.wait(min(seconds, self._reader.remaining))
        for arrival in self._unread.peek():
            if isinstance(arrival.reply, Delta):
                return
            if isinstance(arrival.reply, Failed):
                raise JobFailed(arrival.reply)

    def batches(self) -> AsyncIterator[list[ChoiceDelta]]:
        """Yield the deltas of all choices, in order of arrival; each batch has those since the previous batch.

        The last batch may be empty.

        Raises:
            GenerationError: the request failed; all earlier output was returned.
        """
        return self._until_end(self._deltas, None if self._guard is None else partial(self._checked, self._guard))

    def images(self) -> AsyncIterator[list[Drawn]]:
        """Yield batches of an image job's images, in order of arrival.

        Raises `GenerationError` if the request failed.
        """
        return self._until_end(self._drawn)

    def vectors(self) -> AsyncIterator[list[Embedded]]:
        """Yield batches of an embedding job's vectors, in order of arrival.

        Raises `GenerationError` if the request failed.
        """
        return self._until_end(self._embedded)

    def scores(self) -> AsyncIterator[list[Scored]]:
        """Yield batches of a score job's scores, in order of arrival.

        Raises `GenerationError` if the request failed.
        """
        return self._until_end(self._scored)

    def tokenised(self) -> AsyncIterator[list[Tokenised]]:
        """Yield batches with the tokens of a tokenisation job's prompt.

        Raises `GenerationError` if the request failed.
        """
        return self._until_end(self._tokenised)

    @property
    def finished(self) -> bool:
        """Whether all jobs of the request have finished, so that the latest batch is the last one."""
        return not self._unfinished

    def abandon(self, error: GenerationError | None = None) -> None:
        """End the generation because its client has disconnected, or another `error`: drop unread output.

        The reader gets the error.
        """
        self._unread.discard(error or errors.ClientDisconnected())

    def on_close(self, callback: Callable[[], object]) -> None:
        """Set the one `callback` to call when this generation closes; replaces an earlier callback."""
        self._on_close = callback

    def close(self, error: Exception | None = None) -> None:
        """End the generation: cancel unended jobs, settle or release all holds. `error`: why it is unfinished.

        Idempotent.
        """
        if self._closed:
            return
        self._closed = True
        self._on_close()
        self._on_close = lambda: None  # the callback leads back here: only a garbage collection would free the request
        self._services.inbox.close(self._open, cancel=self._published)
        self._queued.leave()
        if self._publishing is not None:
            self._publishing.cancel()
        for entry in self._queue_entries:
            entry.leave()
        self._billing.close(error or errors.ClientDisconnected())
        outcome = "finished" if not self._unfinished else type(error or errors.ClientDisconnected()).__name__
        self._services.metrics.outcomes.labels(self.model, outcome).inc()
        _log.info(
            "generation ended",
            job=self.jobs[0].id,
            tenant=self.jobs[0].tenant,
            model=self.model,
            outcome=outcome,
            tokens=self._tokens,
            seconds=round(self.seconds, 3),
        )

    async def _until_end(
        self,
        read: Callable[[list[Arrival]], list[T]],
        check: Callable[[list[T]], Awaitable[list[T]]] | None = None,
    ) -> AsyncIterator[list[T]]:
        """Yield what `read` makes of all that arrives, and `check` lets pass, until the jobs have ended."""
        try:
            while self._unfinished:
                arrivals = await self._reader.arrivals()
                for number, reply in arrivals:
                    self._billing.take(number, reply)
                    self._queue_entries[number].charge(reply)
                    if isinstance(reply, Finished):
                        self._queue_entries[number].leave()
                output = read(arrivals)
                if check is not None:
                    output = await check(output)
                if self.finished:
                    await self._settle()
                if output or self.finished:
                    yield output
                if self._failure is not None:
                    raise self._failure
        except GenerationError as error:
            self.close(error)
            raise

    async def _settle(self) -> None:
        """Close the finished generation, and wait until its receipts are confirmed: only then the client gets the end.

        A gateway that dies afterwards has billed what it delivered. While the broker or the store is away the answer
        does not wait for longer than a request waits for them anyway.
        """
        self.close()
        await self._billing.wait_for_receipts(min(self._reader.remaining, self._services.timings.unreachable_after))

    async def _checked(self, guard: AnswerGuard, deltas: list[ChoiceDelta]) -> list[ChoiceDelta]:
        """Return the deltas that moderation lets pass now; stop the jobs once it has blocked all that is unfinished."""
        passed = await guard.release(deltas, ended=self.finished or self._failure is not None)
        if guard.stopped and self._unfinished:
            self._is_blocked, self._unfinished = True, 0
        return [ChoiceDelta(*each) for each in passed]

    def _embedded(self, arrivals: list[Arrival]) -> list[Embedded]:
        return self._unordered(arrivals, Embedded)

    def _scored(self, arrivals: list[Arrival]) -> list[Scored]:
        return self._unordered(arrivals, Scored)

    def _tokenised(self, arrivals: list[Arrival]) -> list[Tokenised]:
        return self._unordered(arrivals, Tokenised)

    def _drawn(self, arrivals: list[Arrival]) -> list[Drawn]:
        return self._unordered(arrivals, Drawn)

    def _unordered(self, arrivals: list[Arrival], kind: type[R]) -> list[R]:
        """Return the replies of one kind among `arrivals`; other replies change the state."""
        output = []
        for _, reply in arrivals:
            if isinstance(reply, kind):
                output.append(reply)
                self._queued.begun(reply.job_id)
            else:
                self._note(reply)
        return output

    def _deltas(self, arrivals: list[Arrival]) -> list[ChoiceDelta]:
        """Return the deltas among `arrivals`; other replies change the state."""
        deltas = []
        for number, reply in arrivals:
            if isinstance(reply, Delta):
                self._queued.begun(reply.job_id)
                deltas.append(ChoiceDelta(number * self.jobs[0].n + reply.choice, reply))
            elif isinstance(reply, PromptEcho | PromptLogprobs):
                self.prompts[number].take(reply)
            else:
                self._note(reply)
        if deltas:
            self._count(sum(delta.positions for _, delta in deltas if delta.step is None))
        return deltas

    def _count(self, tokens: int) -> None:
        if not self._tokens and tokens:
            self.first_token_seconds = self.seconds
            self._services.metrics.first_token_seconds.labels(self.model).observe(self.seconds)
        self._tokens += tokens
        self._streamed.inc(tokens)

    def _note(self, reply: Reply) -> None:
        match reply:
            case Finished():
                self._unfinished -= 1
                tokens = reply.usage.completion_tokens + sum(reply.usage.units.values())
                if slots := self.jobs[0].slots:
                    self._services.queues.record_answer(self.model, tokens / slots)
            case Failed():
                self._failure = self._failure or JobFailed(reply)
            case Cancelled():
                self._failure = self._failure or JobCancelled()
