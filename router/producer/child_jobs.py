"""Opens child jobs: jobs that an assistant or a searching worker sends to other models to answer a job of its own.

A child job has its parent's tenant, requester, deadline, service class, cache salt and trace. Its replies go to the
process's own reply inbox, where the same recovery as in a gateway follows it from worker to worker. A child job ends
with its reader: closing the iterator cancels it, and workers cancel the child jobs of a process that has died as they
cancel those of a dead gateway.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog

from router.bus import Bus
from router.errors import BrokerUnavailable, MessageTooLarge, PublishError, PublishUnknown, QueueFull, TooManyAncestors
from router.messages import (
    MAX_DEPTH,
    Cancelled,
    Failed,
    FailureCode,
    Finished,
    Grammar,
    Job,
    Prompt,
    Reply,
    SamplingParams,
    TextOptions,
)
from router.model_registry import ModelRegistry
from router.producer.errors import DeadlinePassed, GenerationError, JobCancelled, JobFailed, UpstreamUnreachable
from router.producer.job_output import ResumePoint
from router.producer.metrics import ProducerMetrics
from router.producer.recovery_driver import OpenJob
from router.producer.recovery_events import JobQueued
from router.producer.reply_inbox import ReplyInbox
from router.producer.reply_reader import ReplyReader, ReplySource
from router.timings import DEFAULT_TIMINGS, Timings
from runtime.retry import Backoff, exponential_backoff

TRACE_HEADERS = ("traceparent", "tracestate")
"""Headers of W3C Trace Context, which a child job takes over from its parent's message."""
PUBLISH_WAIT = exponential_backoff(first=0.1, longest=1.0)
"""Seconds between two tries to publish a child job while the broker takes none."""
REMEMBERED_IDS = 100_000
"""Ids of child jobs for which the number of openings is kept."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ChildRequest:
    """What a child job asks of a model; `step` names it within its parent, as `s2`, `v2` or `a`."""

    step: str
    model: str
    prompt: Prompt
    sampling: SamplingParams
    text: TextOptions = field(default_factory=TextOptions)
    grammar: Grammar | None = None
    n: int = 1
    delivered: ResumePoint | None = None
    """Output of an earlier opening that was delivered to the client; the replies continue after it."""


class ParentFailure(NamedTuple):
    """How a job fails because of its child job; `message` is for the client."""

    code: FailureCode
    message: str
    param: str | None = None


ChildJobError = GenerationError | PublishError | TooManyAncestors
"""Errors of `ChildJobs.replies`."""


def parent_failure(error: ChildJobError) -> ParentFailure:
    """Convert the error that ended a child job to the failure (code and message) with which its parent job fails."""
    match error:
        case JobFailed():
            return ParentFailure(error.failure, str(error), error.param)
        case DeadlinePassed():
            return ParentFailure(FailureCode.DEADLINE_EXCEEDED, str(error))
        case GenerationError():
            return ParentFailure(FailureCode.WORKER_LOST, str(error))
        case TooManyAncestors():
            return ParentFailure(FailureCode.INVALID_PARAMETER, "Assistants call one another too deeply.", "model")
        case MessageTooLarge():
            message = "The request is too large together with its files, images and results of tools."
            return ParentFailure(FailureCode.INVALID_PARAMETER, message)
        case PublishError():
            _log.warning("a child job was not queued", reason=str(error))
            return ParentFailure(FailureCode.WORKER_LOST, "The service is temporarily unavailable.")


class ChildJobs:
    """Opens child jobs and reads their replies. One instance per process; use it on the event loop only.

    Call `open`, then run `run` beside the jobs, and `close` at the end.
    """

    def __init__(
        self,
        bus: Bus,
        own_id: str,
        metrics: ProducerMetrics,
        *,
        no_worker_timeout: float,
        max_unread_bytes: int,
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        """Create the reply inbox and the registry of models.

        Args:
            bus: the started bus of the process.
            own_id: id to which replies go; another one after each start of the process.
            metrics: metrics of the inbox and of recovery.
            no_worker_timeout: seconds without a live worker after which a silent child job fails.
            max_unread_bytes: most bytes of unread replies of one child job.
            timings: times of recovery.
        """
        self.models = ModelRegistry(time.time, timings.worker_alive_timeout)
        """The models that workers serve, as their heartbeats report."""
        self.own_id = own_id
        """Id of this process as `Job.reply_to` of its child jobs."""
        self.listens_since: float | None = None
        """Monotonic time from which heartbeats arrive; `None` before `open`."""
        self._bus = bus
        self._unreachable_after = timings.unreachable_after
        self._source = ReplySource(bus, self.models, timings, no_worker_timeout)
        self._inbox = ReplyInbox(
            bus,
            own_id,
            metrics,
            max_unread_bytes=max_unread_bytes,
            availability=self.models.availability,
            timings=timings,
        )
        self._children: dict[str, list[OpenJob]] = {}
        """Open child jobs by their parents' ids."""
        self._openings: OrderedDict[str, int] = OrderedDict()

    async def open(self) -> None:
        """Create this process's reply inbox, and subscribe to the workers' heartbeats; call it before `run`.

        Raises:
            BrokerUnavailable: the queues can't be declared.
        """
        self._windows = await self._inbox.listen()
        self._statuses = await self._bus.statuses()
        self.listens_since = time.monotonic()

    async def run(self) -> None:
        """Pass replies to the child jobs, recover lost ones, and observe workers, until `close`.

        A failure fails all child jobs.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._inbox.run(self._windows))
                tasks.create_task(self._observe())
        except Exception:
            _log.critical("the reply inbox failed", exc_info=True)
            self._inbox.fail_all(UpstreamUnreachable())
            raise

    async def close(self) -> None:
        """Cancel all open child jobs of this process and delete its reply inbox; `run` then returns."""
        for parent_id in list(self._children):
            self.cancel(parent_id)
        await self._windows.close()
        await self._statuses.close()

    async def replies(
        self, parent: Job, request: ChildRequest, headers: Mapping[str, object]
    ) -> AsyncGenerator[Reply, None]:
        """Publish one child job and yield the replies with its output in order, each once; the last is `Finished`.

        Before the output of each worker comes its `Started`, with the number of prompt tokens.

        Closing the iterator cancels the job at its worker. The id is `PARENT-STEP`, also when another process repeats
        the step, so that traces and usage records are found by the parent's id.

        Args:
            parent: the job that is being answered, with its deadline by this machine's clock.
            request: the model, its prompt and what was delivered before.
            headers: headers of the parent's message, from which the trace context is taken.

        Raises:
            TooManyAncestors: the parent has the largest permitted depth.
            PublishError: the broker took no job for a minute, or the model has no queue.
            GenerationError: the job failed, was cancelled, or can't be answered any more.
        """
        job = self._child(parent, request)
        [opened] = self._inbox.open([job])
        opened.headers = {name: str(headers[name]) for name in TRACE_HEADERS if name in headers}
        self._children.setdefault(parent.id, []).append(opened)
        reader = ReplyReader(self._source, [opened])
        try:
            await self._publish(job, opened.headers)
            opened.recovery.receive(JobQueued(), time.monotonic())
            while True:
                for _, reply in await reader.arrivals():
                    match reply:
                        case Failed():
                            raise JobFailed(reply)
                        case Cancelled():
                            raise JobCancelled
                    yield reply
                    if isinstance(reply, Finished):
                        return
        finally:
            self._close(parent.id, opened)

    async def _publish(self, job: Job, headers: Mapping[str, str]) -> None:
        """Publish a job; wait for a broker that is away or a full queue, because the parent is an accepted job.

        A publish without a confirm counts as queued: if it was not, recovery publishes a copy.

        Raises:
            MessageTooLarge: the job is larger than the broker accepts.
            PublishError: no queue is bound, or the broker took no job for `Timings.unreachable_after`.
        """
        backoff, until = Backoff(PUBLISH_WAIT), time.monotonic() + self._unreachable_after
        while True:
            try:
                await self._bus.publish_job(job, headers)
            except PublishUnknown as error:
                _log.warning("child job not confirmed", job=job.id, reason=str(error))
            except (BrokerUnavailable, QueueFull) as error:
                if time.monotonic() >= until:
                    raise
                _log.warning("child job not queued, retrying", job=job.id, reason=str(error))
                await backoff.sleep()
                continue
            return

    def cancel(self, parent_id: str) -> None:
        """Cancel all open child jobs of one parent job at their workers; their iterators raise `JobCancelled`."""
        for opened in self._children.get(parent_id, [])[:]:
            self._close(parent_id, opened)
            opened.unread.discard(JobCancelled())

    def _child(self, parent: Job, request: ChildRequest) -> Job:
        if parent.depth >= MAX_DEPTH:
            raise TooManyAncestors(f"job {parent.id} has {parent.depth} ancestors, so it can't open {request.step}")
        delivered = {} if request.delivered is None else request.delivered._asdict()
        return Job(
            id=self._id(f"{parent.id}-{request.step}"),
            model=request.model,
            tenant=parent.tenant,
            requester=parent.requester,
            parent=parent.id,
            depth=parent.depth + 1,
            reply_to=self.own_id,
            created=time.time(),
            deadline=parent.deadline,
            prompt=request.prompt,
            sampling=request.sampling,
            text=request.text,
            grammar=request.grammar,
            n=request.n,
            service_class=parent.service_class,
            cache_salt=parent.cache_salt,
            **delivered,
        )

    def _id(self, first: str) -> str:
        """Return the id of the next opening of a step: `first`, then `first.2`: workers remember cancelled ids."""
        openings = self._openings[first] = self._openings.pop(first, 0) + 1
        if len(self._openings) > REMEMBERED_IDS:
            self._openings.popitem(last=False)
        return first if openings == 1 else f"{first}.{openings}"

    def _close(self, parent_id: str, opened: OpenJob) -> None:
        self._inbox.close([opened], cancel=True)
        siblings = [each for each in self._children.pop(parent_id, []) if each is not opened]
        if siblings:
            self._children[parent_id] = siblings

    async def _observe(self) -> None:
        async for status in self._statuses:
            self.models.observe(status)
