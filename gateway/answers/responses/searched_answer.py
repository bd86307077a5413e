"""Answers a response with the tool `file_search`: the gateway searches, and the model answers from the passages.

The model decides by calling the function that stands for the tool, or the client does by `tool_choice`. Each time that
the model answers is a job of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

import msgspec

from auth_billing.access.principal import Principal
from gateway.admission.controller import AdmittedRequest
from gateway.answers.responses.output import INCOMPLETE, ResponseOutput
from gateway.answers.responses.run_log import Entry, JobEnded, LoggedPassage, SearchBegun, SearchEnded
from gateway.answers.responses.search_progress import SearchProgress
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_chat_job, response_job
from gateway.vector_stores.answer_searcher import AnswerSearcher
from router.messages import ChatPrompt, Delta, Job, Usage, UsagePart
from router.producer.errors import NotContinuable
from router.producer.job_output import JobOutput
from router.usage_arithmetic import merged, total


class AnswerJobs(Protocol):
    """Interface by which an answer submits its jobs, and gets its caller's rights."""

    @property
    def principal(self) -> Principal:
        """The response's caller with the rights that it was accepted with."""
        ...

    async def caller(self) -> Principal:
        """Return the caller with the rights for the next search, and for the jobs after it."""
        ...

    def submit(self, admitted: AdmittedRequest, jobs: Sequence[Job]) -> AbstractAsyncContextManager[Generation]:
        """Submit the next job of the model, as `JobSubmission.submit` does."""
        ...

    def submit_query(self, admitted: AdmittedRequest, jobs: Sequence[Job]) -> AbstractAsyncContextManager[Generation]:
        """Submit a job that embeds the queries of a search, or scores what it has found."""
        ...


class SearchedAnswer:
    """One answer with file searches. Read `entries` once; take each one into the response's output before the next."""

    def __init__(
        self,
        searcher: AnswerSearcher,
        progress: SearchProgress,
        output: ResponseOutput,
        first: Job,
        jobs: AnswerJobs,
    ) -> None:
        """Create an answer that goes on after `progress`.

        Args:
            searcher: searches the vector stores.
            progress: what earlier entries say; this object adds its own.
            output: output of the response, with the option `searches`.
            first: the model's job without passages; the jobs have its seed, its deadline and ids that begin with its.
            jobs: submits the jobs.
        """
        self.progress = progress
        self.generation: Generation | None = None
        """The latest job of the model."""
        self._searcher = searcher
        self._output = output
        self._first = first
        self._caller = jobs.principal
        self._jobs = jobs

    @property
    def used(self) -> tuple[Usage, Sequence[UsagePart]]:
        """What the model's jobs have used until now, and what searches and steps have, by model."""
        usage, parts = [self.progress.usage], [*self.progress.parts]
        if self.generation is not None and self.progress.job is not None:
            usage.append(self.generation.usage_so_far)
            parts += self.generation.parts
        return total(usage), merged(parts)

    def close(self, error: Exception | None) -> None:
        """End the job that runs now, if one does. Idempotent."""
        if self.generation is not None:
            self.generation.close(error)

    async def entries(self) -> AsyncIterator[list[Entry]]:
        """Search and generate to the end; yield the entries of the response's log.

        Raises:
            Exception: As `AnswerSearcher.search`, `AdmissionController.admit` and the submission of jobs do.
            GenerationError: A job did not finish.
        """
        progress = self.progress
        while not progress.ended:
            if (queries := progress.next_queries) is not None:
                if not progress.is_searching:
                    yield self._taken(SearchBegun(queries))
                yield self._taken(await self._search(queries))
            elif (text := progress.not_found_answer) is not None:
                answer = Delta(job_id="", attempt_id="", start=0, token_ids=[], text=text, finish_reason="stop")
                yield self._taken(answer)
            else:
                async for entries in self._generate():
                    yield entries

    def _taken(self, *entries: Entry) -> list[Entry]:
        for each in entries:
            self.progress.take(each)
        return list(entries)

    async def _search(self, queries: Sequence[str]) -> SearchEnded:
        self._caller = await self._jobs.caller()
        plan = self.progress.plan
        found, parts = await self._searcher.search(
            self._caller, plan.tool, queries, self._jobs.submit_query, address=plan.address
        )
        return SearchEnded([LoggedPassage.of(each) for each in found], parts, plan.shows_results)

    async def _generate(self) -> AsyncIterator[list[Entry]]:
        """Submit the next job, or one that continues the job that the log has the beginning of; yield its entries."""
        progress = self.progress
        resumed, delivered = progress.job is not None, list(progress.deltas)
        model = self._searcher.catalogue.find(progress.plan.chat.model, self._caller.models)
        chat, begun = await asyncio.to_thread(progress.next_chat, model)
        admitted = await self._searcher.admission.admit(self._caller, chat)
        origin = replace(Origin.of(self._searcher.settings), deadline=self._first.deadline)
        prompt = self._first.prompt
        job = build_chat_job(chat, admitted, origin, prompt.images if isinstance(prompt, ChatPrompt) else ())
        id = f"{self._first.id}-s{progress.jobs}" if progress.jobs else self._first.id
        job = response_job(job, id, drops_turns=self._first.text.drop_turns)
        job = continued_job(_with_seed(job, self._first.sampling.seed), delivered)
        async with self._jobs.submit(admitted, [job]) as generation:
            self.generation = generation
            generation.deliver(delivered)
        if not resumed:
            yield self._taken(begun)
        async for batch in generation.batches():
            yield self._taken(*(delta for _, delta in batch))
        queries = self._output.wanted_queries()[: progress.left]
        if self._output.has_calls or self._output.finish_reason in INCOMPLETE:
            queries = []
        yield self._taken(JobEnded(generation.usage, list(generation.parts), queries))


def continued_job(job: Job, delivered: Sequence[Delta]) -> Job:
    """Return a job that continues after the deltas that readers have.

    Raises:
        NotContinuable: Their tokens are not known.
    """
    output = JobOutput.of(job)
    for delta in delivered:
        output.accept(delta)
    if not output.resumable:
        raise NotContinuable
    return msgspec.structs.replace(job, **output.resume_point._asdict())


def _with_seed(job: Job, seed: int) -> Job:
    return msgspec.structs.replace(job, sampling=msgspec.structs.replace(job.sampling, seed=seed))
