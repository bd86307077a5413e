"""Chat completions for callers in the same process: limited, billed, reported and cancelled as over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest

from auth_billing.access.principal import Principal
from auth_billing.errors import InsufficientCredit, NoPrice, RateLimitExceeded
from auth_billing.prices.price_book import PriceBook, PriceVersion
from auth_billing.prices.pricing import PriceList, TokenRate
from gateway import in_process
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.in_process import AnswerUpdate, QueueUpdate
from router.messages import FailureCode, GatewayLoad, QueuedWork, ServiceClass, StepState, Usage, UsagePart
from router.producer.errors import JobFailed
from stored_objects.errors import DocumentNotFound
from tests.fakes.prices import ListPriceStore
from tests.fakes.scripted_worker import (
    PART_BOUNDS,
    ROUTE,
    WEATHER,
    answer_in_steps,
    fail,
    never,
    start_and_wait,
    status,
)
from tests.gateway.conftest import HI, MODEL, SetStage, Stage, eventually
from tests.gateway.vector_stores.library import CATS, DOGS, EMBEDDER, RENT, Library, library

about: Any = pytest.approx
"""Stands for a float inside a larger value that is compared."""


ADA = Principal(key_id="", tenant="org-acme", cache_salt="salt", project="project-1", user="user-ada")
RATE = TokenRate(input=3, cached_input=2, output=6)


def prices() -> PriceBook:
    """A list with one model in it."""
    store = ListPriceStore()
    store.versions.append(PriceVersion(PriceList(1, {MODEL: {ServiceClass.DEFAULT: RATE}}), 0.0))
    return PriceBook(store)


def completion(stage: Stage, book: PriceBook | None = None, **fields: Any) -> Any:
    """The fields of Ada's request."""
    return in_process.complete(stage.gateway, book or prices(), ADA, {"model": MODEL, "messages": HI, **fields})


async def listen(answer: Any, into: list[Any]) -> None:
    """Collect all updates in a background task."""
    async for each in answer:
        into.append(each)  # noqa: PERF401 - as it comes


async def heard(stage: Stage, **fields: Any) -> list[AnswerUpdate]:
    """Return all updates except queue positions."""
    return [each async for each in completion(stage, **fields) if isinstance(each, AnswerUpdate)]


async def test_updates_have_usage_and_cost_and_the_last_one_is_final(set_stage: SetStage) -> None:
    stage = await set_stage()
    *texts, last = await heard(stage)
    assert "".join(each.text for each in texts) == "0 1 2 3 4 "
    assert (last.text, last.finish_reason) == ("", "length")
    assert last.usage == Usage(prompt_tokens=5, completion_tokens=5, cached_tokens=2)
    assert last.cost == 3 * 3 + 2 * 2 + 5 * 6
    costs = [each.cost for each in texts]
    assert costs == sorted(costs)
    await eventually(stage.is_settled)
    (receipt,) = stage.receipts
    assert receipt.usage == last.usage
    (payer,) = stage.billing.payers.values()
    assert (payer.tenant, payer.project, payer.user, payer.key_id) == ("org-acme", "project-1", "user-ada", "")


async def test_without_credit_no_job_is_published(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.billing.refusal = InsufficientCredit(1, 2)
    with pytest.raises(InsufficientCredit):
        await heard(stage)
    assert not stage.worker.jobs


async def test_rate_limits_apply(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_project="1 requests/minute")
    await heard(stage)
    with pytest.raises(RateLimitExceeded) as refused:
        await heard(stage)
    assert 0 < refused.value.wait <= 60


async def test_a_slot_is_freed_at_any_end(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_project="1 concurrent")
    stage.billing.refusal = InsufficientCredit(1, 2)
    with pytest.raises(InsufficientCredit):
        await heard(stage)
    stage.billing.refusal = None
    with pytest.raises(ModelNotFound):
        await heard(stage, model="no-such")
    first = completion(stage)
    await anext(first)
    with pytest.raises(RateLimitExceeded):
        await heard(stage)
    await first.aclose()
    assert await heard(stage)


async def test_an_invalid_request_is_refused_before_a_hold(set_stage: SetStage) -> None:
    stage = await set_stage()
    fields: dict[str, Any]
    for fields in ({"temperature": 9}, {"messages": []}):
        with pytest.raises(InvalidRequest):
            await heard(stage, **fields)
    with pytest.raises(NoPrice):
        await anext(
            in_process.complete(stage.gateway, PriceBook(ListPriceStore()), ADA, {"model": MODEL, "messages": HI})
        )
    assert not stage.billing.held


async def test_closing_the_iterator_cancels_the_job_and_bills_the_delivered_tokens(set_stage: SetStage) -> None:
    stage = await set_stage(start_and_wait)
    answer = completion(stage)
    async for each in answer:
        if isinstance(each, AnswerUpdate):
            assert each.text == "0 1 "
            break
    await answer.aclose()
    (job,) = stage.worker.jobs
    async with asyncio.timeout(20):
        await stage.worker.cancel_of(job.id).wait()
    await eventually(stage.is_settled)
    assert [receipt.usage.completion_tokens for receipt in stage.receipts] == [2]


async def test_a_waiting_request_gets_its_queue_position_and_may_leave(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancel while waiting for the first reply: the job is cancelled at its worker."""
    monkeypatch.setattr(in_process, "QUEUE_CHECK_INTERVAL", 0.01)
    stage = await set_stage(never)
    full_fleet(stage)
    places: list[Any] = []

    listening = asyncio.create_task(listen(completion(stage), places))
    await eventually(lambda: bool(places))
    assert places == [QueueUpdate(1, about(2.56))]
    await asyncio.sleep(0.05)
    assert len(places) == 1  # it is said again when it has changed
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    (job,) = stage.worker.jobs
    async with asyncio.timeout(20):
        await stage.worker.cancel_of(job.id).wait()
    await eventually(stage.is_settled)
    assert stage.gateway.metrics.outcomes.labels(MODEL, "ClientDisconnected")._value.get() == 1


def full_fleet(stage: Stage) -> None:
    """Report the worker's slots as full, with 100 tokens per second and a clock that stands still."""
    stage.gateway.models._clock = lambda: 0.0
    stage.gateway.queues._others._clock = lambda: 0.0
    beat = msgspec.structs.replace(status(MODEL), started=1.0)
    for _ in range(2):
        stage.gateway.models.observe(msgspec.structs.replace(beat, running=8, waiting=1, tokens_per_second=100.0))
    work = QueuedWork(model=MODEL, service_class=ServiceClass.DEFAULT, running=8)
    stage.gateway.queues.observe(GatewayLoad(gateway="gateway-2", queues=[work]))


async def test_earlier_updates_are_delivered_before_a_failure(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.FAILED_REPEATEDLY, after_tokens=True))
    said: list[Any] = []
    with pytest.raises(JobFailed):
        await listen(completion(stage), said)
    assert "".join(each.text for each in said if isinstance(each, AnswerUpdate)) == "0 "


async def test_updates_have_steps_and_their_cost(set_stage: SetStage) -> None:
    stage = await set_stage(answer_in_steps)
    stage.worker.bus.send_status(msgspec.structs.replace(status(MODEL), parts=PART_BOUNDS))
    await eventually(lambda: all(model.max_parts for model in stage.gateway.models.models()))
    book, router = prices(), {each: TokenRate(5, 1, 7) for each in ServiceClass}
    store = ListPriceStore()
    listed = (await book.current()).models
    paid = {each: TokenRate(0, 0, 0, units={"call": 11}) for each in ServiceClass}
    store.versions.append(PriceVersion(PriceList(1, {**listed, "router-1.5": router, "tool.weather": paid}), 0.0))
    updates = [each async for each in completion(stage, PriceBook(store)) if isinstance(each, AnswerUpdate)]
    assert [step.number for update in updates for step in update.steps if step.state.ended] == [0, 1]
    last = updates[-1]
    assert "".join(each.text for each in updates) == "a b"
    assert last.parts == (*ROUTE.parts, *WEATHER.parts)
    answer = 3 * 3 + 2 * 2 + 2 * 6
    assert last.cost == answer + (16 * 5 + 64 * 1 + 9 * 7) + 11


@asynccontextmanager
async def answer_from(shelf: Library, question: str, *stores: str, **fields: Any) -> AsyncIterator[list[AnswerUpdate]]:
    """The updates of a member's answer from vector stores."""
    store = ListPriceStore()
    rates = {name: {ServiceClass.DEFAULT: RATE} for name in (MODEL, EMBEDDER, "router-1.5")}
    store.versions.append(PriceVersion(PriceList(1, rates), 0.0))
    member = await shelf.stage.accounts.principal_of_member("tenant-1", "project-1", "user-ada")
    body = {"model": MODEL, "messages": [{"role": "user", "content": question}], **fields}
    answer = in_process.complete(shelf.stage.gateway, PriceBook(store), member, body, stores)
    async with aclosing(answer) as updates:  # type: ignore[type-var]
        yield [each async for each in updates if isinstance(each, AnswerUpdate)]


async def test_an_answer_from_vector_stores_begins_with_the_search() -> None:
    async with library() as shelf:
        store = await shelf.create(DOGS, CATS)
        async with answer_from(shelf, "How is the dog?", store["id"]) as (running, searched, *texts, last):
            (step,), (done,) = running.steps, searched.steps
            assert (step.kind, step.number, step.state) == ("file_search", 0, StepState.RUNNING)
            assert (done.number, done.state, done.data["query"]) == (0, StepState.DONE, "How is the dog?")
            best = done.data["passages"][0]
            assert (best["number"], best["filename"], best["vector_store_id"]) == (1, "0.md", store["id"])
            assert done.data["quoted"] == len(done.data["passages"])
            (job,) = shelf.stage.worker.jobs
            assert "kennel" in str(job.prompt)
            embedded = UsagePart(model=EMBEDDER, usage=Usage(prompt_tokens=3))
            assert (searched.parts, searched.cost) == ((embedded,), 3 * 3)
            assert texts
            assert last.parts == (embedded,)
            assert last.cost == 3 * 3 + 3 * 3 + 2 * 2 + 5 * 6


async def test_steps_of_an_assistant_follow_the_search() -> None:
    async with library(answer_in_steps) as shelf:
        shelf.stage.worker.bus.send_status(msgspec.structs.replace(status(MODEL), parts=PART_BOUNDS))
        await eventually(lambda: any(each.max_parts for each in shelf.stage.gateway.models.models()))
        store = await shelf.create(DOGS)
        async with answer_from(shelf, "How is the dog?", store["id"]) as updates:
            numbers = [step.number for each in updates for step in each.steps if step.state.ended]
            assert numbers == [0, ROUTE.number + 1, WEATHER.number + 1]


async def test_where_nothing_fits_no_model_answers() -> None:
    async with library() as shelf:
        store = await shelf.create(RENT)
        async with answer_from(shelf, "Where is the cat?", store["id"]) as (_, searched, text, last):
            assert searched.steps[0].data["passages"] == []
            assert text.text == "The answer to this question is not in your documents."
            assert (last.finish_reason, last.usage, last.cost) == ("stop", Usage(prompt_tokens=0), searched.cost)
            assert shelf.stage.worker.jobs == []


async def test_an_unknown_vector_store_fails_the_answer() -> None:
    async with library() as shelf:
        with pytest.raises(DocumentNotFound):
            async with answer_from(shelf, "How is the dog?", "vs_none"):
                pass
