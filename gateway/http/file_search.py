"""Answers an HTTP request for a response with the tool `file_search`, as one object or as events.

All jobs of the response are one bill, whose receipts are withheld until the response has ended.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError
from gateway.admission.controller import AdmittedRequest
from gateway.admission.queue_estimator import QueueEstimate
from gateway.answers.responses.answer import Keep
from gateway.answers.responses.background_jobs import AcceptedJob
from gateway.answers.responses.events import ResponseEvents, event_frame
from gateway.answers.responses.output import Event
from gateway.answers.responses.response_object import response_usage
from gateway.answers.responses.run_log import Entry, JobBegun
from gateway.answers.responses.search_progress import SearchProgress
from gateway.answers.responses.searched_answer import SearchedAnswer
from gateway.errors import ClientDisconnected, GatewayError
from gateway.http.dependencies import AuthorisedRequest
from gateway.http.http_errors import response_error
from gateway.http.job_submission import submit
from gateway.jobs.generation import Generation
from gateway.jobs.keyed_billing import SCOPE_KEY, KeyedBilling
from gateway.openai.responses.request import ResponseRequest
from router.errors import PublishError
from router.messages import Job
from router.producer.errors import GenerationError
from stored_objects.errors import StoredObjectError

RECEIPT_TIMEOUT = 60.0
"""Seconds that the end of a response waits for the confirm of its receipts."""


class FileSearchResponse:
    """One response whose model may have files searched. Call `begin`, then read `whole` or `frames` once.

    It stands for the generation of its stream (`sse.StreamSource`): that of the job which runs now.
    """

    def __init__(
        self,
        request: Request,
        authorised: AuthorisedRequest[ResponseRequest],
        accepted: AcceptedJob,
        events: ResponseEvents,
        keep: Keep,
    ) -> None:
        """`accepted`: the job without passages, with a plan; `events`: their output has the option `searches`."""
        self._request = request
        self._caller, body, self._gateway = authorised
        self._streamed = bool(body.stream)
        self._events, self._keep = events, keep
        assert accepted.plan is not None  # noqa: S101 - the route's condition
        progress = SearchProgress(accepted.plan)
        job = accepted.job
        self._answer = SearchedAnswer(self._gateway.searcher, progress, events.output, job, self)
        self._entries = self._answer.entries()
        """What follows `_begun`."""
        self._outer_bill: KeyedBilling | None = request.scope.get(SCOPE_KEY)
        self._bill = KeyedBilling("" if self._outer_bill is None else self._outer_bill.record_id)
        request.scope[SCOPE_KEY] = self._bill  # jobs are submitted with it
        self._begun: list[Entry] = []
        """Entries until the model's first job was submitted."""
        self._submitted = False
        self._ended = False

    @property
    def waiting(self) -> QueueEstimate | None:
        """Queue position and estimated wait of the job that runs now."""
        generation = self._answer.generation
        return None if generation is None else generation.waiting

    @property
    def finished(self) -> bool:
        """Whether the whole response has ended."""
        return self._ended

    @property
    def jobs(self) -> Sequence[Job]:
        """The job that runs now."""
        return () if self._answer.generation is None else self._answer.generation.jobs

    def close(self, error: Exception | None = None) -> None:
        """End the job that runs now, and bill the jobs of a stream that was never begun to be read. Idempotent."""
        self._answer.close(error)
        self._take_bill(pays=True)

    async def begin(self) -> None:
        """Search first if the client wants it, and submit the model's first job.

        Raises:
            Exception: As `SearchedAnswer.entries` does.
        """
        try:
            async for entries in self._entries:
                self._begun += entries
                if any(isinstance(each, JobBegun) for each in entries):
                    break
        except BaseException as error:
            self._answer.close(error if isinstance(error, Exception) else None)
            await self._settle(error)
            raise

    async def whole(self) -> dict[str, Any]:
        """Generate the response to its end; return its response object, which is stored before.

        Raises:
            GenerationError, GatewayError, AccountError, PublishError, StoredObjectError: The response failed, and costs
                nothing.
        """
        try:
            async for _ in self._read():
                pass  # the output is what counts
        except BaseException as error:
            self._answer.close(error if isinstance(error, Exception) else None)
            await self._settle(error)
            raise
        return await self._finish()

    async def frames(self) -> AsyncIterator[str]:
        """Yield the event frames of the response's stream. A failure is the event `response.failed`."""
        try:
            try:
                async for events in self._read():
                    yield "".join(map(event_frame, events))
                ended = await self._finish()
            except ClientDisconnected:
                raise
            except (GenerationError, AccountError, GatewayError, PublishError, StoredObjectError) as error:
                self._answer.close(error)
                await self._settle(None)
                yield "".join(map(event_frame, self._events.break_off()))
                ended = await self._keep(self._events.failed(response_error(error)))
            self._ended = True
            yield "".join(map(event_frame, self._events.end(ended)))
        finally:
            if not self._ended:
                self._answer.close(ClientDisconnected())
                await self._settle(ClientDisconnected())

    @property
    def principal(self) -> Principal:
        """The request's caller."""
        return self._caller

    async def caller(self) -> Principal:
        """Return the request's caller."""
        return self._caller

    @asynccontextmanager
    async def submit(self, admitted: AdmittedRequest, jobs: Sequence[Job]) -> AsyncIterator[Generation]:
        """Submit a job of the model; the status line of a stream waits briefly for the first reply of the first one."""
        async with submit(self._request, self._gateway, admitted, jobs, streamed=self._streamed) as generation:
            yield generation
            if self._streamed and not self._submitted:
                await generation.wait_for_first_reply(self._gateway.settings.header_delay)
            self._submitted = True

    @asynccontextmanager
    async def submit_query(self, admitted: AdmittedRequest, jobs: Sequence[Job]) -> AsyncIterator[Generation]:
        """Submit a job that embeds the queries of a search, or scores what it has found."""
        async with submit(self._request, self._gateway, admitted, jobs, streamed=False) as generation:
            yield generation

    async def _read(self) -> AsyncIterator[list[Event]]:
        """Yield the events of the response, without the last one."""
        yield [*self._events.begin(), *self._events.take(self._begun)]
        async for entries in self._entries:
            yield list(self._events.take(entries))

    async def _finish(self) -> dict[str, Any]:
        """Submit the bill of the whole response, then store it; return its response object."""
        await self._settle(None)
        ended = self._events.finished(response_usage(*self._answer.used), int(time.time()))
        if (budget := self._answer.progress.budget) is not None:
            ended["passages"] = budget.as_fields()
        return await self._keep(ended)

    async def _settle(self, error: BaseException | None) -> None:
        """Submit the receipts of all jobs, free of charge if the response failed with `error`.

        Those of a request with an idempotency key that is answered stay withheld until its answer is stored.
        """
        bill = self._take_bill(pays=error is None or isinstance(error, ClientDisconnected))
        await bill.wait_for_receipts(RECEIPT_TIMEOUT if error is None else 0.0)

    def _take_bill(self, *, pays: bool) -> KeyedBilling:
        """Submit the receipts of the ended jobs, or have them withheld with the answer; return what was submitted."""
        bill, self._bill = self._bill, KeyedBilling(self._bill.record_id)
        if pays and self._outer_bill is not None:
            bill.pass_on(self._outer_bill)
        else:
            bill.submit(pays=pays)
        return bill
