"""Runs background responses, which outlive their clients and gateways, and takes over those of gateways that died.

The gateway that accepts a response holds the lease of its run and writes the deltas of its job to the run's log, in
groups; readers see what is in the log only, so that a successor has it too. A gateway that claims an abandoned run
seals the log with an empty group and submits a job that continues after the logged deltas. With file searches the log
has what these have found too, and a successor searches again if one was under way. Receipts are withheld until
the ended response is stored with them, as for requests with an idempotency key (`gateway/jobs/keyed_billing.py`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import KeyInUse, StoreUnavailable
from gateway.admission.controller import AdmittedRequest
from gateway.answers.responses.background_jobs import (
    RUN_ERRORS,
    AcceptedJob,
    BackgroundServices,
    RunJobs,
    passes,
)
from gateway.answers.responses.background_run import BackgroundRun, LogWriter, events_of
from gateway.answers.responses.log_polls import LogPolls
from gateway.answers.responses.search_progress import SearchPlan
from gateway.answers.responses.searched_answer import continued_job
from gateway.errors import ClientDisconnected, ServerShutdown
from gateway.jobs.keyed_billing import KeyedBilling
from router.messages import ChatPrompt, Delta, Job
from router.messages.codec import JOBS, encode
from router.producer.errors import DeadlinePassed
from stored_objects.project_documents.records import ProjectDocument
from stored_objects.project_documents.response_runs import ResponseRun
from stored_objects.responses.responses import read_document

MAX_TAKEOVERS = 16
"""Abandoned runs that one search finds, at most; after that many the next search follows at once."""
BEGIN_TIMEOUT = 60.0
"""Seconds in which a worker must begin a job that continues a response."""
RECEIPT_TIMEOUT = 60.0
"""Seconds that the end of a run waits for the confirm of its receipts."""
STOP_TIMEOUT = 5.0
"""Seconds that `close` waits until runs are given up."""

_log = structlog.get_logger(__name__)


class BackgroundResponses:
    """The background responses that one gateway process writes; `run` must be running while the process serves."""

    def __init__(self, services: BackgroundServices) -> None:
        self.runs = services.runs
        self.runner = secrets.token_hex(12)
        """Name of this process as the holder of leases."""
        self.polls = LogPolls()
        """Pace of this process's readers of responses that other processes write."""
        self._services = services
        self._timings = services.timings
        self._log = LogWriter(services.runs)
        self._running: dict[str, BackgroundRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def running(self, response_id: str) -> BackgroundRun | None:
        """Return the run of a response that this process writes; `None` if it does not."""
        return self._running.get(response_id)

    async def start(self, document: ProjectDocument, accepted: AcceptedJob) -> None:
        """Submit the job of a new response, store the response's `document`, and go on in the background.

        Raises:
            AccountError, PublishError, GenerationError: The job can't be paid for or queued; nothing is stored.
            GatewayError, StoredObjectError: The first file search is refused; nothing is stored.
            KeyInUse: Another run of the request, which has an idempotency key, has stored the response.
            StorageQuotaExceeded: The project or its organisation stores too much; nothing is generated.
        """
        quota = self._services.quota
        await quota.reserve(document.owner, document.size)
        principal, allowance = accepted.admitted.principal, accepted.allowance
        job, plan = encode(_stored_job(accepted)), b"" if accepted.plan is None else accepted.plan.encoded()
        stored = ResponseRun(self.runner, self._lease, job, principal.key_id, principal.user, search=plan)
        run = await self._run(document)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        allowance.retain()
        self._spawn(self._first(run, stored, accepted, begun))
        try:
            await asyncio.shield(begun)
        except StoreUnavailable:
            raise  # the document may be stored
        except RUN_ERRORS:
            await quota.release(document.owner, document.size)
            raise

    def cancel(self, response_id: str) -> None:
        """Stop generating a response that this process writes, because its client has cancelled it."""
        if (run := self._running.get(response_id)) is not None:
            run.abandon(ClientDisconnected())

    async def run(self) -> None:
        """Renew leases and write logs, and take over the runs of processes that died, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._log.run())
            tasks.create_task(self._renew())
            tasks.create_task(self._scan())

    async def close(self) -> None:
        """Give up all runs at shutdown, so that another process claims them at once."""
        self._stopping = True
        for run in list(self._running.values()):
            run.abandon(ServerShutdown())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_TIMEOUT)

    @property
    def _lease(self) -> float:
        return time.time() + self._timings.answer_lease

    async def _run(self, document: ProjectDocument) -> BackgroundRun:
        stored = await read_document(document)
        events = events_of(stored, self._services.address, self._services.objects)
        return BackgroundRun(document, stored, events, self._log)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._timings.answer_progress_interval)
            if not (runs := list(self._running.values())):
                continue
            try:
                held = await self.runs.renew(self.runner, [run.id for run in runs], self._lease)
            except StoreUnavailable as error:
                _log.warning("leases of background responses not renewed", reason=str(error))
                continue
            for run in runs:
                if run.ended:
                    continue
                if run.id not in held:
                    run.lose()
                elif held[run.id]:
                    run.abandon(ClientDisconnected())

    async def _scan(self) -> None:
        while not self._stopping:
            abandoned: Sequence[str] = ()
            try:
                abandoned = await self.runs.abandoned(time.time(), MAX_TAKEOVERS)
                await self._claim(abandoned)
            except StoreUnavailable as error:
                _log.warning("can't search for abandoned responses", reason=str(error))
            if len(abandoned) < MAX_TAKEOVERS:  # else there may be more
                await asyncio.sleep(self._timings.answer_scan_interval)

    async def _claim(self, responses: Sequence[str]) -> None:
        """Take over the runs of `responses` that no other process is faster to claim; wait until they have begun.

        Those that wait meanwhile are free for other gateways, so that a thousand runs are spread among them.
        """
        begun: list[asyncio.Event] = []
        try:
            for each in responses:
                claimed = await self.runs.claim(each, self.runner, self._lease, time.time())
                if claimed is not None:
                    begun.append(asyncio.Event())
                    task = self._spawn(self._take_over(*claimed, begun[-1]))
                    task.add_done_callback(partial(_set, begun[-1]))
        finally:
            for event in begun:
                await event.wait()

    async def _first(
        self, run: BackgroundRun, stored: ResponseRun, accepted: AcceptedJob, begun: asyncio.Future[None]
    ) -> None:
        async def begin() -> None:
            if not await self.runs.begin(run.document, stored):
                raise KeyInUse
            self._running[run.id] = run
            begun.set_result(None)

        try:
            await self._generate(run, accepted, begin)
        except Exception as error:  # noqa: BLE001 - raised in the request that waits for the beginning
            if not begun.done():
                begun.set_exception(error)
            else:
                self._log_interruption(run, error)
        finally:
            accepted.allowance.close()

    async def _take_over(self, document: ProjectDocument, stored: ResponseRun, begun: asyncio.Event) -> None:
        """Continue a claimed run to its end; set `begun` once its job is submitted."""
        run = await self._run(document)
        self._running[run.id] = run  # so that its lease is renewed
        first = JOBS.decode(stored.job)
        principal = Principal(
            stored.key_id, document.organisation, first.cache_salt, project=document.project, user=stored.user
        )
        allowance = self._services.limits.allowance(principal)

        async def begin() -> None:
            self._count("continued")
            begun.set()

        try:
            await run.recover(self.runs)
            if (error := _end_reason(first, stored)) is not None:
                self._count("ended")
                await self._end(run, KeyedBilling(run.id), error)
                return
            job = self._continued(run, first, stored)
            _log.info("took over a background response", response=run.id, entries=len(run.recovered))
            await allowance.enter()
            model = self._services.catalogue.find(job.model, principal.models)
            admitted = AdmittedRequest(principal, model, job.service_class, job.begin_by)
            plan = SearchPlan.decoded(stored.search) if stored.search else None
            await self._generate(run, AcceptedJob(admitted, job, allowance, plan), begin)
        except RUN_ERRORS as failure:
            if passes(failure):
                self._log_interruption(run, failure)
            else:
                self._count("ended")
                await self._end(run, KeyedBilling(run.id), failure)
        except Exception as failure:  # noqa: BLE001 - its lease expires, and it is tried again until its deadline
            self._log_interruption(run, failure)
        finally:
            self._forget(run)
            allowance.close()

    def _count(self, outcome: str) -> None:
        self._services.metrics.takeovers.labels("response", outcome).inc()

    def _log_interruption(self, run: BackgroundRun, error: Exception) -> None:
        """Log why a run stops here; it is claimed again once its lease has expired."""
        if passes(error):
            self._count("postponed")
            _log.warning("a background response is not continued yet", response=run.id, reason=str(error))
        else:
            _log.error("a background response broke", response=run.id, exc_info=error)

    def _continued(self, run: BackgroundRun, first: Job, stored: ResponseRun) -> Job:
        """Return the job that continues a run after what its log has; with file searches the first job, renamed.

        Raises:
            NotContinuable: The tokens in the log are not known.
        """
        job = msgspec.structs.replace(
            first,
            id=f"{run.id}-{stored.takeovers}",
            reply_to=self._services.gateway_id,
            begin_by=min(time.time() + BEGIN_TIMEOUT, first.deadline),
        )
        if stored.search:
            return job
        return continued_job(job, [each for each in run.recovered if isinstance(each, Delta)])

    async def _generate(self, run: BackgroundRun, accepted: AcceptedJob, begin: Callable[[], Awaitable[None]]) -> None:
        """Write a run's answer to the log until the end, which is stored with the receipts of its jobs.

        Raises:
            Exception: The run has not begun, or may go on later; its jobs here are free of charge.
        """
        jobs = RunJobs(self._services, run, accepted, begin)
        try:
            try:
                error = await jobs.answer()
            except BaseException:
                await jobs.keyed.settle(0.0, pays=False)
                raise
            await self._end(run, jobs.keyed, error)
        finally:
            self._forget(run)

    async def _end(self, run: BackgroundRun, keyed: KeyedBilling, error: Exception | None) -> None:
        """Store the end of a run with its receipts, unless the run is lost or given up; then publish them."""
        if isinstance(error, ServerShutdown):
            await run.flushed()
            self._forget(run)
            with suppress(StoreUnavailable):
                await self.runs.release(run.id, self.runner)
            await keyed.settle(0.0, pays=False)
            return
        quota, error_of = self._services.quota, self._services.error_of
        held = await run.store_end(self.runs, self.runner, keyed, error, error_of, quota=quota)
        await keyed.settle(RECEIPT_TIMEOUT, pays=held)

    def _forget(self, run: BackgroundRun) -> None:
        if self._running.get(run.id) is run:
            del self._running[run.id]
        run.changes.notify()


def _end_reason(first: Job, stored: ResponseRun) -> Exception | None:
    """Return why a claimed run is not to be continued, `None` if it is."""
    if stored.cancelled:
        return ClientDisconnected()
    return DeadlinePassed() if time.time() > first.deadline else None


def _stored_job(accepted: AcceptedJob) -> Job:
    """Return the job as the run has it: without the conversation, if the plan of its searches has that."""
    job = accepted.job
    if accepted.plan is None or not isinstance(job.prompt, ChatPrompt):
        return job
    return msgspec.structs.replace(job, prompt=ChatPrompt(messages=[], images=job.prompt.images))


def _set(event: asyncio.Event, _task: asyncio.Task[None]) -> None:
    event.set()
