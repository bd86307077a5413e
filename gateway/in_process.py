"""Runs chat completions for callers in the gateway's process, as the web chat: admitted, limited, billed and streamed.

The web chat uses it: its users have no API key, and its answers outlive their HTTP requests.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from auth_billing.access.principal import Principal
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import PriceList
from auth_billing.rate_limits.limiter import Allowance
from gateway.admission.controller import AdmittedRequest
from gateway.http.gateway import Gateway
from gateway.jobs.generation import ChoiceDelta, Generation
from gateway.jobs.job_builder import Origin, build_chat_job
from gateway.jobs.prompt_files import files_owner
from gateway.jobs.prompt_images import PromptImages
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.vector_stores.access import check_embeds, find_store
from gateway.vector_stores.passage_prompt import not_found_answer, queries_of, quote
from gateway.vector_stores.search import ANSWER_RESULTS, Queries, search_stores
from router.messages import FinishReason, Job, ServiceClass, Step, StepState, Usage, UsagePart
from router.usage_arithmetic import NO_USAGE, merged

FILE_SEARCH = "file_search"
"""Kind of the step that searches vector stores before the answer; it is the first step."""
QUEUE_CHECK_INTERVAL = 1.0
"""Seconds between two checks of a request's queue position."""


@dataclass(frozen=True)
class QueueUpdate:
    """A waiting request's queue position (0: a slot is free) and estimated wait in `seconds`; `None`: unknown."""

    position: int
    seconds: float | None


@dataclass(frozen=True)
class AnswerUpdate:
    """Text, reasoning and steps since the previous update, usage and cost (nano-USD) so far.

    The last update has a `finish_reason`.
    """

    text: str
    usage: Usage
    """Usage of the answer, without that of its steps."""
    cost: int
    """Cost of the answer and of its steps."""
    finish_reason: FinishReason | None = None
    steps: tuple[Step, ...] = ()
    """Steps that started or ended; a running step and its end have the same number."""
    parts: tuple[UsagePart, ...] = ()
    """Usage of all steps so far, by model."""
    reasoning: str = ""
    """Reasoning before the text."""


async def complete(
    gateway: Gateway,
    prices: PriceBook,
    principal: Principal,
    fields: dict[str, Any],
    vector_stores: Sequence[str] = (),
) -> AsyncIterator[AnswerUpdate | QueueUpdate]:
    """Run a chat completion (OpenAI's `fields`, one choice, no tools) and yield its updates. Closing cancels the job.

    `vector_stores`: ids of vector stores that are searched for the last question before; the answer cites passages.

    Raises:
        GatewayError, GenerationError, AccountError, PublishError, StoredObjectError: the request was refused or failed;
            earlier updates stay valid.
    """
    body = ChatCompletionRequest.parse(fields)
    queries = queries_of(body.messages) if vector_stores else []
    allowance = gateway.limits.allowance(principal)
    try:
        await allowance.enter()
        price_list = await prices.current()
        searched: AnswerUpdate | None = None
        if queries:
            yield _search_update(StepState.RUNNING, {"query": queries[0]})
            body, searched = await _search(
                gateway, principal, allowance, body, prices=price_list, queries=queries, vector_stores=vector_stores
            )
            yield searched
            absent = None if searched.steps[0].data["passages"] else not_found_answer(queries[0])
            if absent is not None and not body.continue_final_message:
                yield replace(searched, text=absent, steps=())
                yield replace(searched, finish_reason="stop", steps=())
                return
        answer = _answer(gateway, price_list, principal, allowance, body)
        async with aclosing(answer) as updates:  # type: ignore[type-var]
            async for update in updates:
                yield update if searched is None or isinstance(update, QueueUpdate) else _after(searched, update)
    finally:
        allowance.close()


async def _search(
    gateway: Gateway,
    principal: Principal,
    allowance: Allowance,
    body: ChatCompletionRequest,
    *,
    prices: PriceList,
    queries: Sequence[str],
    vector_stores: Sequence[str],
) -> tuple[ChatCompletionRequest, AnswerUpdate]:
    """Search vector stores; return the chat completion with the passages that fit, and the update about the search.

    Raises:
        ScopeMissing: the caller may not read files, or make embeddings.
        DocumentNotFound: the project has no such vector store.
        Exception: As `search_stores` does.
    """
    files_owner(principal)
    check_embeds(principal)
    model = gateway.catalogue.find(body.model, principal.models)
    stores = [await find_store(gateway, principal, id) for id in dict.fromkeys(vector_stores)]

    def submit(admitted: AdmittedRequest, jobs: Sequence[Job]) -> AbstractAsyncContextManager[Generation]:
        return gateway.jobs.submit(admitted, jobs, allowance, streamed=False)

    wanted = Queries(queries, ANSWER_RESULTS, requires_relevance=True)
    found, parts = await search_stores(gateway, principal, stores, wanted, submit, address="")
    prompt = await asyncio.to_thread(quote, body, found, context=model.max_model_len, bounds=model.prompt_bounds)
    passages = [{"number": number, **each.source} for number, each in enumerate(prompt.passages, start=1)]
    data = {"query": queries[0], **prompt.budget.as_fields(), "passages": passages}
    cost = _cost_of(prices, parts, ServiceClass.DEFAULT)
    return prompt.chat, _search_update(StepState.DONE, data, tuple(parts), cost)


def _search_update(
    state: StepState, data: dict[str, Any], parts: tuple[UsagePart, ...] = (), cost: int = 0
) -> AnswerUpdate:
    step = Step(number=0, kind=FILE_SEARCH, name="", state=state, data=data)
    return AnswerUpdate("", NO_USAGE, cost, steps=(step,), parts=parts)


def _after(searched: AnswerUpdate, update: AnswerUpdate) -> AnswerUpdate:
    """Return an update of an answer as one after the search, whose step is the first."""
    steps = tuple(msgspec.structs.replace(step, number=step.number + 1) for step in update.steps)
    parts = merged([*searched.parts, *update.parts])
    return replace(update, cost=searched.cost + update.cost, steps=steps, parts=parts)


async def _answer(
    gateway: Gateway, prices: PriceList, principal: Principal, allowance: Allowance, body: ChatCompletionRequest
) -> AsyncIterator[AnswerUpdate | QueueUpdate]:
    """Run a chat completion and yield its updates. Closing cancels the job."""
    gateway.admission.check_images(principal, body)
    images = await PromptImages(gateway.objects, gateway.addresses).read(principal, body)
    admitted = await gateway.admission.admit(principal, body)
    settings = gateway.settings
    origin = Origin.of(settings)
    job = build_chat_job(body, admitted, origin, images)
    cost = partial(_cost, prices, job)
    prices.price(job.model, job.service_class)  # refuses a model without a price before its job is submitted
    async with gateway.jobs.submit(admitted, [job], allowance, streamed=True) as generation:
        finish_reason: FinishReason = "stop"
        async with aclosing(generation.batches()) as batches:  # type: ignore[type-var]
            first = asyncio.create_task(_next(batches))
            try:
                async for update in _queue_updates(generation, first):
                    yield update
                batch = await first
            finally:
                first.cancel()
                await asyncio.wait({first})  # `batches` can't be closed while this task runs in it
            while batch is not None:
                finish_reason = next((d.finish_reason for _, d in batch if d.finish_reason), finish_reason)
                used, parts = generation.usage_so_far, tuple(generation.parts)
                if batch:
                    text = "".join(delta.text for _, delta in batch)
                    steps = tuple(delta.step for _, delta in batch if delta.step is not None)
                    reasoning = "".join(delta.reasoning for _, delta in batch)
                    price = cost(used, parts)
                    yield AnswerUpdate(text, used, price, steps=steps, parts=parts, reasoning=reasoning)
                batch = await _next(batches)
        used, parts = generation.usage, tuple(generation.parts)
        yield AnswerUpdate("", used, cost(used, parts), finish_reason, parts=parts)


def _cost(prices: PriceList, job: Job, usage: Usage, parts: Sequence[UsagePart]) -> int:
    """Return the cost in nano-USD of the job's answer, and of its steps at the prices of their models."""
    return prices.price(job.model, job.service_class).cost(usage) + _cost_of(prices, parts, job.service_class)


def _cost_of(prices: PriceList, parts: Sequence[UsagePart], service_class: ServiceClass) -> int:
    return sum(prices.price_of(part.model, part.usage, service_class).cost(part.usage) for part in parts)


async def _next(batches: AsyncIterator[list[ChoiceDelta]]) -> list[ChoiceDelta] | None:
    return await anext(batches, None)


async def _queue_updates(
    generation: Generation, first: asyncio.Task[list[ChoiceDelta] | None]
) -> AsyncIterator[QueueUpdate]:
    """Yield the queue position whenever it changes, until `first`, the first batch, is done."""
    last: QueueUpdate | None = None
    while not first.done():
        estimate = generation.waiting
        if estimate is not None and estimate.position:
            known = estimate.seconds is not None and math.isfinite(estimate.seconds)
            update = QueueUpdate(estimate.position, estimate.seconds if known else None)
            if update != last:
                last = update
                yield update
        await asyncio.wait({first}, timeout=QUEUE_CHECK_INTERVAL)
