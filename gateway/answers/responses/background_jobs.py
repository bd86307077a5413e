"""Submits the jobs of one run of a background response in the gateway that holds the run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError, RateLimitExceeded, StoreUnavailable
from auth_billing.rate_limits.limiter import Allowance, RateLimiter
from gateway.admission.controller import AdmittedRequest
from gateway.admission.model_catalogue import ModelCatalogue
from gateway.answers.responses.background_run import BackgroundRun
from gateway.answers.responses.events import ErrorOf
from gateway.answers.responses.search_progress import SearchPlan, SearchProgress, carried_parts
from gateway.answers.responses.searched_answer import SearchedAnswer
from gateway.errors import GatewayError, InvalidRequest, RequestTooLarge, ScopeMissing
from gateway.jobs.generation import Generation
from gateway.jobs.keyed_billing import KeyedBilling
from gateway.jobs.submission import JobSubmission
from gateway.metrics import GatewayMetrics
from gateway.vector_stores.answer_searcher import AnswerSearcher
from router.errors import PublishError
from router.messages import Delta, Job, UsagePart
from router.producer.errors import GenerationError, ModelUnavailable
from router.timings import Timings
from stored_objects.errors import BlobsUnavailable, StoredObjectError
from stored_objects.images.results import BlobAddress
from stored_objects.objects.objects import StoredObjects
from stored_objects.project_documents.quota import DocumentQuota
from stored_objects.project_documents.response_runs import ResponseRuns
from stored_objects.vector_stores.searches import IndexNotReady

RunError = GenerationError | AccountError | GatewayError | StoredObjectError | PublishError
"""Why a run has ended without a whole answer."""
RUN_ERRORS = (GenerationError, AccountError, GatewayError, StoredObjectError, PublishError)
_PASSING = (
    GatewayError,  # a model that is not found may be one whose workers are still loading it
    ModelUnavailable,
    PublishError,
    RateLimitExceeded,
    StoreUnavailable,
    BlobsUnavailable,
    IndexNotReady,
)
_FINAL = (InvalidRequest, RequestTooLarge, ScopeMissing)  # e.g. `PromptBlocked`


@dataclass(frozen=True)
class BackgroundServices:
    """The services that all background responses of a gateway use."""

    runs: ResponseRuns
    quota: DocumentQuota
    jobs: JobSubmission
    catalogue: ModelCatalogue
    limits: RateLimiter
    address: BlobAddress
    objects: StoredObjects
    searcher: AnswerSearcher
    timings: Timings
    gateway_id: str
    error_of: ErrorOf
    metrics: GatewayMetrics


class AcceptedJob(NamedTuple):
    """A job to submit for a response: its admission, and the rate limits that have counted it."""

    admitted: AdmittedRequest
    job: Job
    allowance: Allowance
    plan: SearchPlan | None = None
    """File searches of the response, whose prompts the job lacks; `None`: it is the only job."""


def passes(error: Exception) -> bool:
    """Return whether a run that an error has interrupted may go on later."""
    return isinstance(error, _PASSING) and not isinstance(error, _FINAL)


class RunJobs:
    """The jobs of one run in this process. `begin` is called once the first one is submitted."""

    def __init__(
        self,
        services: BackgroundServices,
        run: BackgroundRun,
        accepted: AcceptedJob,
        begin: Callable[[], Awaitable[None]],
    ) -> None:
        self.keyed = KeyedBilling(run.id)
        """Withholds the receipts of all jobs."""
        self._services = services
        self._run = run
        self._accepted = accepted
        self._begin = begin
        self._has_begun = False
        self._carried: Sequence[UsagePart] = ()
        """What jobs of earlier processes have used, until a job's bill has it."""

    async def answer(self) -> RunError | None:
        """Generate the answer to its end, into the run's log; return the error that has ended it.

        Raises:
            Exception: The run has not begun, or may go on later (`passes`).
        """
        if self._accepted.plan is None:
            return await self._answer_by_one_job()
        return await self._answer_with_searches(self._accepted.plan)

    @property
    def principal(self) -> Principal:
        """The response's caller with the rights that it was accepted with."""
        return self._accepted.admitted.principal

    async def caller(self) -> Principal:
        """Return the caller with the rights of this moment, for a search and the jobs after it."""
        plan = self._accepted.plan
        assert plan is not None  # noqa: S101 - only searches ask
        return await self._services.searcher.caller_now(self.principal, plan.tool, plan.chat.model)

    @asynccontextmanager
    async def submit(self, admitted: AdmittedRequest, jobs: Sequence[Job]) -> AsyncIterator[Generation]:
        """Submit a job of the model, whose bill has what earlier processes have used for the response."""
        carried, self._carried = self._carried, ()
        async with self._submitted(admitted, jobs, streamed=True, carried=carried) as generation:
            yield generation

    @asynccontextmanager
    async def submit_query(self, admitted: AdmittedRequest, jobs: Sequence[Job]) -> AsyncIterator[Generation]:
        """Submit a job that embeds the queries of a search, or scores what it has found."""
        async with self._submitted(admitted, jobs, streamed=False) as generation:
            yield generation

    @asynccontextmanager
    async def _submitted(
        self, admitted: AdmittedRequest, jobs: Sequence[Job], *, streamed: bool, carried: Sequence[UsagePart] = ()
    ) -> AsyncIterator[Generation]:
        submit: Callable[..., AbstractAsyncContextManager[Generation]] = partial(
            self._services.jobs.submit, keyed=self.keyed, carried=carried
        )
        async with submit(admitted, jobs, self._accepted.allowance, streamed=streamed) as generation:
            await self._ensure_begun()
            self._run.generate(generation)
            yield generation

    async def _ensure_begun(self) -> None:
        if not self._has_begun:
            await self._begin()
            self._has_begun = True
            self._run.begin()

    async def _answer_by_one_job(self) -> RunError | None:
        error: RunError | None = None
        admitted, job, *_ = self._accepted
        async with self.submit(admitted, [job]) as generation:
            generation.deliver([each for each in self._run.recovered if isinstance(each, Delta)])
            try:
                async for batch in generation.batches():
                    await self._run.add([delta for _, delta in batch])
            except (GenerationError, AccountError) as failure:
                error = failure
            usage = generation.usage if generation.finished else generation.usage_so_far
            self._run.used(usage, generation.parts)
        return error

    async def _answer_with_searches(self, plan: SearchPlan) -> RunError | None:
        admitted, job, *_ = self._accepted
        progress = SearchProgress(plan)
        for entry in self._run.recovered:
            progress.take(entry)
        self._carried = carried_parts(progress, admitted.model.name)
        answer = SearchedAnswer(self._services.searcher, progress, self._run.output, job, self)
        error: RunError | None = None
        try:
            async for entries in answer.entries():
                await self._run.add(entries)
            await self._ensure_begun()
        except RUN_ERRORS as failure:
            if not self._has_begun or passes(failure):
                raise
            error = failure
        finally:
            answer.close(error)
        self._run.used(*answer.used)
        self._run.passages = None if progress.budget is None else progress.budget.as_fields()
        return error
