"""The chat's model client over a real gateway: requests, streamed answers, and error messages."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from auth_billing.errors import AccountError, BudgetExhausted, InsufficientCredit, LargerThanLimit
from auth_billing.prices.price_book import PriceBook, PriceVersion
from auth_billing.prices.pricing import NANO, PriceList, TokenRate
from auth_billing.rate_limits.limits import (
    Limits,
    Subject,
    key_subject,
    model_subject,
    organisation_model_subject,
    organisation_subject,
    person_subject,
)
from chat_ui.generations.model_client import (
    AnswerEnd,
    AnswerFailed,
    AnswerRequest,
    ContinuationUnsupported,
    ModelEvent,
    Price,
    SearchOffer,
    ServedModel,
    ShuttingDown,
    StepUpdate,
    TextDelta,
    Turn,
    Verifier,
)
from chat_ui.history.records import ModelSettings, Role, TokenUsage
from chat_ui.history.search_settings import SearchSettings
from chat_ui.history.steps import StepState
from gateway.errors import ServerShutdown
from infra.web_app.gateway_model_client import (
    SEARCH_TEMPERATURE,
    SEARCH_TOP_P,
    TEMPERATURE,
    TOP_P,
    GatewayFleet,
    GatewayModelClient,
)
from router.messages import ChatPrompt, Delta, FailureCode, Finished, Job, ServiceClass, Step, Task, UsagePart
from router.messages import StepState as WireState
from stored_objects.objects.records import ObjectKind, ObjectOwner
from tests.contract.examples import CALL, WEATHER_TOOL
from tests.fakes.prices import ListPriceStore
from tests.fakes.scripted_worker import (
    PART_BOUNDS,
    WEATHER,
    ScriptedWorker,
    answer_in_steps,
    fail,
    start_and_wait,
    status,
    step_delta,
    usage,
)
from tests.gateway.conftest import MODEL, VERIFIER, Stage, announce_searches, eventually, stage
from tests.gateway.test_in_process import ADA
from tests.gateway.vector_stores.library import DOGS, EMBEDDER, library

HI = Turn(Role.USER, "Hi")
SETTINGS = ModelSettings(MODEL, "Be kind.", temperature=0.5, top_p=0.9, repetition_penalty=1.1, max_tokens=4)
ASK = AnswerRequest(SETTINGS, [HI])
GOING_ON = AnswerRequest(SETTINGS, [HI, Turn(Role.ASSISTANT, "Once upon")], continues=True)


@pytest.fixture
async def here() -> AsyncIterator[Stage]:
    async with stage(limits_per_project="2 requests/minute") as here:
        yield here


def engine_of(here: Stage) -> GatewayModelClient:
    """On a price list with the model in it."""
    store = ListPriceStore()
    store.versions.append(PriceVersion(PriceList(1, {MODEL: {ServiceClass.DEFAULT: TokenRate(3, 2, 6)}}), 0.0))
    return GatewayModelClient(here.gateway, PriceBook(store))


async def said(here: Stage, ask: AnswerRequest = ASK) -> list[ModelEvent]:
    return [each async for each in engine_of(here).answer(ADA, ask)]


async def refusal(here: Stage, ask: AnswerRequest = ASK) -> AnswerFailed:
    with pytest.raises(AnswerFailed) as failed:
        await said(here, ask)
    return failed.value


async def test_a_question_becomes_a_request_and_its_answer_is_streamed(here: Stage) -> None:
    *texts, ended = await said(here)
    assert "".join(each.text for each in texts if isinstance(each, TextDelta)) == "0 1 2 3 "
    assert ended == AnswerEnd("length", TokenUsage(5, 2, 4), 3 * 3 + 2 * 2 + 4 * 6)
    (job,) = here.worker.jobs
    assert isinstance(job.prompt, ChatPrompt)
    assert job.prompt.messages == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    sampling = job.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.5, 0.9, 4)
    assert sampling.repetition_penalty == 1.1
    assert (job.prompt.add_generation_prompt, job.prompt.continue_final_message) == (True, False)


async def test_steps_come_before_the_text_and_tools_are_switched_off() -> None:
    async with stage(answer_in_steps) as here:
        assistant = msgspec.structs.replace(status(MODEL), parts=PART_BOUNDS, tools=[WEATHER_TOOL])
        here.worker.bus.send_status(assistant)
        await eventually(lambda: all(model.max_parts for model in here.gateway.models.models()))
        store = ListPriceStore()
        names = [MODEL, "router-1.5"]
        rates = {name: {each: TokenRate(3, 2, 6) for each in ServiceClass} for name in names}
        store.versions.append(PriceVersion(PriceList(1, rates), 0.0))
        engine = GatewayModelClient(here.gateway, PriceBook(store))
        assert [each.tools for each in await engine.models(ADA)] == [["weather"]]
        off = replace(ASK, settings=replace(SETTINGS, tools_off=("math",)))
        events = [each async for each in engine.answer(ADA, off)]
        steps = [each.step for each in events if isinstance(each, StepUpdate)]
        assert [(each.number, each.state) for each in steps if each.state is not StepState.RUNNING] == [
            (0, StepState.DONE),
            (1, StepState.DONE),
        ]
        assert steps[-1].data == WEATHER.data
        texts = [each for each in events if isinstance(each, TextDelta)]
        assert "".join(each.text for each in texts) == "a b"
        assert all(each.text for each in texts)
        prompt: Any = here.worker.jobs[0].prompt
        assert prompt.tools_off == ["math"]


async def test_a_question_is_answered_from_the_vector_stores_of_the_settings() -> None:
    async with library() as shelf:
        store = ListPriceStore()
        rates = {name: {ServiceClass.DEFAULT: TokenRate(3, 2, 6)} for name in (MODEL, EMBEDDER)}
        store.versions.append(PriceVersion(PriceList(1, rates), 0.0))
        engine = GatewayModelClient(shelf.stage.gateway, PriceBook(store))
        member = await shelf.stage.accounts.principal_of_member("tenant-1", "project-1", "user-ada")
        dogs = (await shelf.create(DOGS))["id"]

        async def asked(*stores: str) -> list[ModelEvent]:
            settings = replace(SETTINGS, vector_stores=stores)
            ask = AnswerRequest(settings, [Turn(Role.USER, "How is the dog?")])
            return [each async for each in engine.answer(member, ask)]

        steps = [each.step for each in await asked(dogs) if isinstance(each, StepUpdate)]
        assert [(each.number, each.kind, each.state) for each in steps] == [
            (0, "file_search", StepState.RUNNING),
            (0, "file_search", StepState.DONE),
        ]
        (passage,) = steps[1].data["passages"]
        assert (passage["filename"], passage["passage"], "text" in passage) == ("0.md", 0, False)
        with pytest.raises(AnswerFailed) as failed:
            await asked("vs_none")
        assert failed.value.code == "not_found"


async def think_and_answer(worker: ScriptedWorker, job: Job) -> None:
    """Two tokens of reasoning, and if more than one token is wanted one of the answer."""
    attempt = uuid.uuid4().hex
    worker.begin(job, attempt)
    cut = job.sampling.max_tokens == 1
    pieces: list[dict[str, Any]] = [{"reasoning": "H"}, {"reasoning": "m", "finish_reason": "length" if cut else None}]
    pieces += [] if cut else [{"text": "So", "finish_reason": "stop"}]
    for start, fields in enumerate(pieces):
        worker.send(job, Delta(job_id=job.id, attempt_id=attempt, start=start, token_ids=[start], **fields))
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(pieces))))


@pytest.mark.parametrize(("most", "text"), [(4, "So"), (1, "")])
async def test_reasoning_is_a_step_that_ends_before_the_text(most: int, text: str) -> None:
    async with stage(think_and_answer) as here:
        ask = replace(ASK, settings=replace(SETTINGS, max_tokens=most))
        events = [each async for each in engine_of(here).answer(ADA, ask)]
    shown = [each for each in events if isinstance(each, StepUpdate | TextDelta | AnswerEnd)]
    steps = [each.step for each in shown if isinstance(each, StepUpdate)]
    assert {(each.number, each.kind) for each in steps} == {(0, "reasoning")}
    assert [each.state for each in steps[-2:]] == [StepState.RUNNING, StepState.DONE]
    assert steps[-1].data["text"] == "Hm"
    assert [each.text for each in shown if isinstance(each, TextDelta)] == ([text] if text else [])
    assert isinstance(shown[-1], AnswerEnd)
    assert isinstance(shown[len(steps) - 1], StepUpdate), "all steps come before the text"


@pytest.mark.parametrize(("reasons", "budget"), [(True, None), (False, 0)])
async def test_an_answer_without_reasoning_has_no_budget_for_it(here: Stage, reasons: bool, budget: int | None) -> None:
    [_ async for _ in engine_of(here).answer(ADA, replace(ASK, reasons=reasons))]
    prompt = here.worker.jobs[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.thinking_token_budget == budget


async def test_listed_tools_are_those_that_are_on_and_those_of_mcp_servers(here: Stage) -> None:
    calls = [UsagePart(model=f"tool.{each}", usage=CALL.usage) for each in ("weather", "wikipedia", "mcp.shop.search")]
    assistant = msgspec.structs.replace(status(MODEL), parts=[*PART_BOUNDS[:1], *calls], tools=[WEATHER_TOOL])
    here.worker.bus.send_status(assistant)
    await eventually(lambda: all(model.max_parts for model in here.gateway.models.models()))
    assert [each.tools for each in await engine_of(here).models(ADA)] == [["weather", "mcp.shop.search"]]


async def test_answers_are_searched_for_by_models_that_search() -> None:
    asked = replace(ASK, settings=ModelSettings(MODEL, test_time_compute=SearchSettings("best_of_n", 4, VERIFIER)))
    async with stage() as here:
        await said(here, asked)
        assert here.worker.jobs[0].search is None
        await announce_searches(here)
        (model,) = await engine_of(here).models(ADA)
        assert (model.id, model.searches) == (MODEL, True)
        reranker = msgspec.structs.replace(status("reranker", "worker-3", task=Task.SCORE), scores_pairs=True)
        here.gateway.models.observe(reranker)
        here.gateway.models.observe(status("no-search", "worker-4"))
        settings = here.gateway.settings
        assert await engine_of(here).search_offer(ADA) == SearchOffer(
            [Verifier(VERIFIER, None, ready=True), Verifier(MODEL, Price(3, 2, 6), ready=True, own_names=[MODEL])],
            settings.max_search_tokens,
            settings.default_max_tokens,
        )
        await said(here, asked)
        job = here.worker.jobs[1]
        assert job.search is not None
        assert (job.search.method, job.search.n, job.search.verifier) == ("best_of_n", 4, VERIFIER)
        assert job.search.return_candidates
        assert (job.sampling.temperature, job.sampling.top_p) == (SEARCH_TEMPERATURE, SEARCH_TOP_P)
        await said(here, replace(GOING_ON, settings=asked.settings))
        assert here.worker.jobs[2].search is None
        failed = await refusal(here, replace(asked, settings=replace(asked.settings, temperature=0.0)))
        assert "temperature" in str(failed)


async def test_the_steps_of_a_search_replace_one_another() -> None:
    def step(number: int, state: WireState, **data: Any) -> Step:
        return Step(number=number, kind="search", name="best_of_n", state=state, data=data)

    async def search(worker: ScriptedWorker, job: Job) -> None:
        steps = [
            step(0, WireState.RUNNING, paths=2),
            step(0, WireState.DONE, paths=[], generated=9),
            step(1, WireState.RUNNING, paths=1),
        ]
        worker.begin(job, "a")
        worker.send(job, step_delta(job, "a", 0, steps[0]), step_delta(job, "a", 0, steps[1]))
        worker.send(job, step_delta(job, "a", 1, steps[2]))
        worker.send_token(job, "a", 1, "b", finish_reason="stop")
        worker.send(job, Finished(job_id=job.id, attempt_id="a", usage=usage(job, 1)))

    async with stage(search) as here:
        steps = [each.step for each in await said(here) if isinstance(each, StepUpdate)]
        assert {each.number for each in steps} == {0}
        assert steps[-1].data == {"step": 2, "paths": 1, "generated": 9}


async def test_the_default_sampling_is_conservative(here: Stage) -> None:
    await said(here, replace(ASK, settings=ModelSettings(MODEL, max_tokens=4)))
    sampling = here.worker.jobs[0].sampling
    assert (sampling.temperature, sampling.top_p) == (TEMPERATURE, TOP_P)


async def test_images_reach_the_worker_before_the_text() -> None:
    file = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes([0, 0, 0, 4, 0, 0, 0, 3, 8, 2, 0, 0, 0])
    async with stage() as here:
        assert [each.reads_images for each in await engine_of(here).models(ADA)] == [False]
        here.worker.bus.send_status(msgspec.structs.replace(status(MODEL), reads_images=True))
        await eventually(lambda: here.gateway.models.models()[0].reads_images)
        assert [each.reads_images for each in await engine_of(here).models(ADA)] == [True]
        owner = ObjectOwner(ADA.tenant, ADA.user)
        stored = await here.gateway.objects.put(owner, file, kind=ObjectKind.IMAGE, media_type="image/png")
        await said(here, replace(ASK, turns=[Turn(Role.USER, "What is this?", (stored.id,))]))
        prompt = here.worker.jobs[0].prompt
        assert isinstance(prompt, ChatPrompt)
        assert prompt.images == [file]
        assert prompt.messages[-1]["content"] == [{"type": "image"}, {"type": "text", "text": "What is this?"}]


async def test_a_continuation_continues_the_last_turn(here: Stage) -> None:
    await said(here, replace(GOING_ON, settings=replace(SETTINGS, system=" ")))
    prompt: Any = here.worker.jobs[0].prompt
    assert [each["role"] for each in prompt.messages] == ["user", "assistant"]
    assert (prompt.add_generation_prompt, prompt.continue_final_message) == (False, True)


@pytest.mark.parametrize(
    ("refused", "code", "words"),
    [
        (InsufficientCredit(NANO, 2 * NANO), "insufficient_credit", "may cost up to 2.00 USD, and 1.00 USD are left"),
        (BudgetExhausted("project:p", -5, NANO), "budget_exhausted", "may cost up to 1.00 USD, and 0.00 USD of it"),
    ],
    ids=["credit", "budget"],
)
async def test_missing_credit_is_reported(here: Stage, refused: AccountError, code: str, words: str) -> None:
    here.billing.refusal = refused
    failed = await refusal(here)
    assert failed.code == code
    assert words in str(failed)


async def test_rate_limits_have_a_retry_after(here: Stage) -> None:
    for _ in range(2):
        await said(here)
    failed = await refusal(here)
    assert failed.code == "shared_rate_limit"
    assert failed.retry_after is not None
    assert 0 < failed.retry_after <= 60


@pytest.mark.parametrize(
    ("subject", "code", "words"),
    [
        (person_subject(ADA.tenant, ADA.user), "rate_limit_exceeded", "this user's API keys and chats together"),
        (key_subject("", ADA.user), "rate_limit_exceeded", "your chats"),
        (organisation_subject(ADA.tenant), "shared_rate_limit", "this organisation"),
        (model_subject(ADA.project, MODEL), "model_rate_limit", "in project"),
        (organisation_model_subject(ADA.tenant, MODEL), "model_rate_limit", f"{MODEL} in this organisation"),
    ],
    ids=["person", "chats", "organisation", "model", "organisation's model"],
)
async def test_a_reached_limit_tells_whose_it_is(subject: Subject, code: str, words: str) -> None:
    async with stage() as here:
        await here.gateway.limits.book.change(subject, Limits(requests_per_minute=1))
        await said(here)
        failed = await refusal(here)
        assert (failed.code, words in str(failed)) == (code, True)
        assert failed.retry_after


async def test_a_chat_larger_than_the_persons_limit_is_not_tried_again() -> None:
    async with stage() as here:
        here.billing.refusal = LargerThanLimit("Request too large", wait=0.0, kind="person")
        failed = await refusal(here)
        assert (failed.code, failed.retry_after) == ("larger_than_limit", None)


async def test_a_chat_and_an_api_key_share_the_persons_limit() -> None:
    async with stage() as here:
        here.accounts.added["hr_live_ada"] = replace(ADA, key_id="ada-key")
        await here.gateway.limits.book.change(person_subject(ADA.tenant, ADA.user), Limits(requests_per_minute=2))
        await said(here)
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        headers = {"authorization": "Bearer hr_live_ada"}
        by_key = [await here.client.post("/v1/chat/completions", json=body, headers=headers) for _ in range(2)]
        assert [each.status_code for each in by_key] == [200, 429]
        assert (await refusal(here)).code == "rate_limit_exceeded"


async def test_an_unsupported_continuation_differs_from_a_failure() -> None:
    async with stage(fail(FailureCode.INVALID_PROMPT)) as here:
        assert isinstance(await refusal(here, GOING_ON), ContinuationUnsupported)
        assert not isinstance(await refusal(here), ContinuationUnsupported)
    async with stage(fail(FailureCode.ENGINE_ERROR)) as here:
        assert not isinstance(await refusal(here, GOING_ON), ContinuationUnsupported)


async def test_a_gateway_shutdown_is_not_a_model_failure() -> None:
    async with stage(start_and_wait) as here:
        asking = asyncio.create_task(refusal(here))
        await eventually(lambda: bool(here.worker.jobs))
        await eventually(lambda: bool(here.gateway.inbox))
        here.gateway.inbox.fail_all(ServerShutdown())
        failed = await asking
    assert isinstance(failed, ShuttingDown)
    assert failed.code == "server_shutdown"


async def test_closing_an_answer_stops_the_engine() -> None:
    async with stage(start_and_wait) as here:
        answer = engine_of(here).answer(ADA, ASK)
        assert isinstance(await anext(answer), TextDelta)
        await answer.aclose()  # type: ignore[attr-defined]
        async with asyncio.timeout(20):
            await here.worker.cancel_of(here.worker.jobs[0].id).wait()


async def test_models_have_their_price_and_the_fleet_its_workers(here: Stage) -> None:
    assert await engine_of(here).models(ADA) == [ServedModel(MODEL, 128, Price(3, 2, 6), ready=True, tools=[])]
    unpriced = GatewayModelClient(here.gateway, PriceBook(ListPriceStore()))
    assert [each.price for each in await unpriced.models(ADA)] == [None]
    fleet = GatewayFleet(here.gateway)
    assert [each.worker for each in fleet.workers()] == ["worker-1"]
    assert [each.name for each in fleet.models()] == [MODEL]
    assert fleet.queued(MODEL) == 0
