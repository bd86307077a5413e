"""Answers a response with the tool `file_search`: the gateway searches, and the model answers from the passages.

The model decides by calling the function that stands for the tool, or the client does by `tool_choice`. Each time that
the model answers is a job of its own; all of them are one response and one bill, whose receipts are withheld until the
response has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from fastapi import Request

from auth_billing.errors import AccountError
from gateway.admission.controller import AdmittedRequest
from gateway.admission.queue_estimator import QueueEstimate
from gateway.answers.responses.answer import Keep
from gateway.answers.responses.events import ResponseEvents, event_frame
from gateway.answers.responses.output import INCOMPLETE, Event, ResponseOutput
from gateway.answers.responses.response_object import ResponseObject, response_usage
from gateway.errors import ClientDisconnected, GatewayError
from gateway.http.dependencies import AuthorisedRequest
from gateway.http.document_audit import client_address
from gateway.http.http_errors import response_error
from gateway.http.job_submission import read_attachments, submit
from gateway.http.response_input import translated
from gateway.http.vector_stores import check_embeds, find_store
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_chat_job, response_job
from gateway.jobs.keyed_billing import SCOPE_KEY, KeyedBilling
from gateway.jobs.prompt_files import files_owner
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.items import InputItem
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.tools import FILE_SEARCH
from gateway.openai.responses.translation import to_chat
from gateway.openai.tools import AllowedTools, AllowedToolsChoice, FunctionTool, ToolChoiceOption
from gateway.openai.vector_store_search import RankingOptions
from gateway.vector_stores.passage_prompt import Budget, not_found_answer, queries_of, quote
from gateway.vector_stores.search import ANSWER_RESULTS, Queries, SearchHit, search_stores
from router.errors import PublishError
from router.messages import Delta, Job, Usage, UsagePart
from router.producer.errors import GenerationError
from router.usage_arithmetic import merged, total
from stored_objects.errors import StoredObjectError
from stored_objects.vector_stores.records import VectorStore

MAX_SEARCHES = 4
"""Most searches of one response."""
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
        items: Sequence[InputItem],
        output: ResponseOutput,
        keep: Keep,
    ) -> None:
        """`items`: the whole conversation; `output`: that of the response, with the option `searches`."""
        self._request = request
        self._caller, self._body, self._gateway = authorised
        tool = self._body.file_search
        assert tool is not None  # noqa: S101 - the route's condition
        self._tool, self._items, self._output, self._keep = tool, items, output, keep
        self._stores: list[VectorStore] = []
        self._outer_bill: KeyedBilling | None = request.scope.get(SCOPE_KEY)
        self._bill = KeyedBilling("" if self._outer_bill is None else self._outer_bill.record_id)
        request.scope[SCOPE_KEY] = self._bill  # jobs are submitted with it
        self._origin = Origin.of(self._gateway.settings)
        self._chat: ChatCompletionRequest
        """The conversation with the texts of its files, without passages."""
        self._images: list[bytes] = []
        self._events: ResponseEvents
        self._generation: Generation | None = None
        self._jobs = self._searches = 0
        self._usage: list[Usage] = []
        self._parts: list[UsagePart] = []
        self._found: list[SearchHit] = []
        self._budget: Budget | None = None
        self._first: tuple[list[str], list[SearchHit]] | None = None
        """Queries and passages of the search before the model's first job."""
        self._not_found_answer: str | None = None
        """The answer without a model, as no passage fits the question."""
        self._ended = False

    @property
    def waiting(self) -> QueueEstimate | None:
        """Queue position and estimated wait of the job that runs now."""
        return None if self._generation is None else self._generation.waiting

    @property
    def finished(self) -> bool:
        """Whether the whole response has ended."""
        return self._ended

    @property
    def jobs(self) -> Sequence[Job]:
        """The job that runs now."""
        return () if self._generation is None else self._generation.jobs

    def close(self, error: Exception | None = None) -> None:
        """End the job that runs now, and bill the jobs of a stream that was never begun to be read. Idempotent."""
        self._close_job(error)
        self._take_bill(pays=True)

    async def begin(self) -> None:
        """Search first if the client wants it, and submit the model's first job.

        Raises:
            ScopeMissing: The caller's key may not read the project's files, or make embeddings.
            DocumentNotFound: The project has no such vector store.
            Exception: As for a response without the tool, and as `search_stores` does.
        """
        try:
            files_owner(self._caller)
            check_embeds(self._caller)
            for id in dict.fromkeys(self._tool.vector_store_ids):
                self._stores.append(await find_store(self._gateway, self._caller, id))
            chat = await translated(self._items, partial(to_chat, self._body, self._items))
            queries = queries_of(chat.messages)
            self._chat, self._images = await read_attachments(self._request, self._gateway, self._caller, chat)
            if self._body.searches_first and queries and self._left > 0:
                self._first = queries, await self._search(queries)
            if self._first is not None and not self._found and self._body.format is None:
                self._not_found_answer = not_found_answer(queries[0])
            admitted = await self._submit() if self._not_found_answer is None else await self._admit(self._chat)
        except BaseException as error:
            await self._settle(error)
            raise
        model, service_class = admitted.model.name, admitted.service_class
        response = ResponseObject.of(self._output.response_id, self._body, model=model, service_class=service_class)
        self._events = ResponseEvents(response, self._output)

    async def whole(self) -> dict[str, Any]:
        """Generate the response to its end; return its response object, which is stored before.

        Raises:
            GenerationError, GatewayError, AccountError, PublishError, StoredObjectError: The response failed, and costs
                nothing.
        """
        try:
            async for _ in self._answer():
                pass  # the output is what counts
        except BaseException as error:
            self._close_job(error if isinstance(error, Exception) else None)
            await self._settle(error)
            raise
        return await self._finish()

    async def frames(self) -> AsyncIterator[str]:
        """Yield the event frames of the response's stream. A failure is the event `response.failed`."""
        try:
            try:
                async for events in self._answer():
                    yield "".join(map(event_frame, events))
                ended = await self._finish()
            except ClientDisconnected:
                raise
            except (GenerationError, AccountError, GatewayError, PublishError, StoredObjectError) as error:
                self._close_job(error)
                await self._settle(None)
                yield "".join(map(event_frame, self._events.break_off()))
                ended = await self._keep(self._events.failed(response_error(error)))
            self._ended = True
            yield "".join(map(event_frame, self._events.end(ended)))
        finally:
            if not self._ended:
                self._close_job(ClientDisconnected())
                await self._settle(ClientDisconnected())

    async def _answer(self) -> AsyncIterator[list[Event]]:
        """Have the model answer, and search as often as it calls for it; yield the events."""
        yield list(self._events.begin())
        if self._first is not None:
            queries, found = self._first
            yield [*self._events.begin_search(queries), *self._events.end_search(self._shown(found))]
        if self._not_found_answer is not None:
            told = Delta(
                job_id="", attempt_id="", start=0, token_ids=[], text=self._not_found_answer, finish_reason="stop"
            )
            yield list(self._events.take([told]))
        while self._generation is not None:
            async for batch in self._generation.batches():
                yield list(self._events.take(delta for _, delta in batch))
            self._usage.append(self._generation.usage)
            self._parts += self._generation.parts
            queries = self._output.wanted_queries()[: self._left]
            if not queries or self._output.has_calls or self._output.finish_reason in INCOMPLETE:
                return
            for query in queries:
                yield list(self._events.begin_search([query]))
                yield list(self._events.end_search(self._shown(await self._search([query]))))
            await self._submit()

    @property
    def _left(self) -> int:
        """Number of searches that the response may still make."""
        limit = self._body.max_tool_calls
        return (MAX_SEARCHES if limit is None else min(MAX_SEARCHES, limit)) - self._searches

    async def _search(self, texts: Sequence[str]) -> list[SearchHit]:
        self._searches += 1
        options = self._tool.ranking_options or RankingOptions()
        limit = self._tool.max_num_results or ANSWER_RESULTS
        required = options.score_threshold is None if options.only_if_relevant is None else options.only_if_relevant
        queries = Queries(texts, limit, self._tool.filters, options, requires_relevance=required)
        submitted = partial(submit, self._request, self._gateway, streamed=False)
        found, used = await search_stores(
            self._gateway, self._caller, self._stores, queries, submitted, address=client_address(self._request)
        )
        self._parts += used
        known = {each.key for each in self._found}
        self._found += [each for each in found if each.key not in known]
        return found

    def _shown(self, found: Sequence[SearchHit]) -> list[dict[str, Any]] | None:
        return [each.as_result() for each in found] if self._body.includes_results else None

    async def _submit(self) -> AdmittedRequest:
        """Submit the next job of the model: with the passages found until now, and the tools that it may still call."""
        chat = await self._next_chat()
        admitted = await self._admit(chat)
        number, self._jobs = self._jobs, self._jobs + 1
        id = f"{self._output.response_id}-{number}" if number else self._output.response_id
        job = build_chat_job(chat, admitted, self._origin, self._images)
        job = response_job(job, id, drops_turns=self._body.truncation == "auto")
        streamed = bool(self._body.stream)
        async with submit(self._request, self._gateway, admitted, [job], streamed=streamed) as generation:
            self._generation = generation
            if streamed and not number:
                await generation.wait_for_first_reply(self._gateway.settings.header_delay)
        return admitted

    async def _admit(self, chat: ChatCompletionRequest) -> AdmittedRequest:
        return await self._gateway.admission.admit(self._caller, chat)

    async def _next_chat(self) -> ChatCompletionRequest:
        """Return the chat completion of the model's next job."""
        chat = self._chat
        offers = self._left > 0 and not self._body.searches_first
        if self._searches or not offers:
            tools = [each for each in chat.tools or () if offers or each.function.name != FILE_SEARCH]
            choice = _later_choice(chat.tool_choice, tools)
            chat = chat.model_copy(update={"tools": tools or None, "tool_choice": choice})
        if (limit := self._body.max_output_tokens) is not None:
            left = max(1, limit - sum(each.completion_tokens for each in self._usage))
            chat = chat.model_copy(update={"max_completion_tokens": left})
        if not self._searches:
            return chat
        model = self._gateway.catalogue.find(chat.model, self._caller.models)
        quoted = partial(quote, context=model.max_model_len, bounds=model.prompt_bounds)
        prompt = await asyncio.to_thread(quoted, chat, self._found)
        self._budget = prompt.budget
        self._output.sources[:] = [each.source for each in prompt.passages]
        return prompt.chat

    async def _finish(self) -> dict[str, Any]:
        """Submit the bill of the whole response, then store it; return its response object."""
        await self._settle(None)
        usage = response_usage(total(self._usage), merged(self._parts))
        ended = self._events.finished(usage, int(time.time()))
        if self._budget is not None:
            ended["passages"] = self._budget.as_fields()
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

    def _close_job(self, error: Exception | None) -> None:
        if self._generation is not None:
            self._generation.close(error)


def _later_choice(choice: ToolChoiceOption | None, tools: Sequence[FunctionTool]) -> ToolChoiceOption | None:
    """Return the choice among `tools` after a search, from that of the request: what it forced has been done."""
    if not isinstance(choice, AllowedToolsChoice) or not tools:
        return None
    names = {each.function.name for each in tools}
    allowed = [each for each in choice.allowed_tools.tools if each.function.name in names]
    if not allowed:
        return "none"
    return AllowedToolsChoice(type=choice.type, allowed_tools=AllowedTools(mode="auto", tools=allowed))
