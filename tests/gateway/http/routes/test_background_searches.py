"""Background responses with the tool `file_search`: another gateway goes on in each phase, and all is one bill."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from auth_billing.access.model_access import ModelAccess, ModelPolicy, PolicyMode
from auth_billing.access.scopes import Scope
from auth_billing.errors import InsufficientCredit
from router.messages import Finished, Job, Outcome, Receipt, ToolCallDelta
from tests.fakes.scripted_worker import ScriptedWorker, usage
from tests.gateway.conftest import KEY, MODEL, eventually, gateway_beside
from tests.gateway.http.routes.test_background_responses import runs, until
from tests.gateway.http.routes.test_responses import EVENT, events
from tests.gateway.http.test_file_search import FORCED, functions_of, prompt_of, respond
from tests.gateway.vector_stores.library import DOGS, EMBEDDER, RENT, TOKENS_OF_A_TEXT, Library, embed_topics, library

QUESTION = "How is the dog?"
SEARCHED = ["Each ", "dog ", "barks ", "[1]", "."]


class Pauses:
    """Pauses of the workers' scripts by name, each for its first visitor only."""

    def __init__(self, *names: str) -> None:
        self._left = set(names)
        self.reached = asyncio.Event()
        self.gate: asyncio.Event | None = None
        """Ends the pauses; `None`: nothing does."""

    async def at(self, name: str, gone: asyncio.Event) -> bool:
        """Pause here if this is one of the names, until the gate opens, or the job is `gone`; return whether it is."""
        if name not in self._left:
            return False
        self._left.discard(name)
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
            return False
        await gone.wait()
        return True


class Searching:
    """Calls for a search for "pies" in the first job, and answers in the next one; may pause in each phase."""

    def __init__(self, *pauses: str) -> None:
        self.pauses = Pauses(*pauses)
        self.embedded = 0
        self.imports = True

    async def __call__(self, worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        searched = "kennel" in prompt_of(job)
        texts = SEARCHED if searched else ["I ", "look", "."]
        for position in range(job.delivered_positions(0), len(texts)):
            if position == 2 and await self.pauses.at("answer" if searched else "call", worker.cancel_of(job.id)):
                return
            last = position == len(texts) - 1
            fields: dict[str, Any] = {"finish_reason": "stop"} if last else {}
            if last and not searched:
                call = ToolCallDelta(index=0, id="call_a", name="file_search", arguments='{"query": "pies"}')
                fields = {"finish_reason": "tool_calls", "tool_calls": [call]}
            worker.send_token(job, attempt, position, texts[position], **fields)
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(texts))))

    async def embed(self, worker: ScriptedWorker, job: Job) -> None:
        """Embed topics; queries after the import may pause."""
        if not self.imports and await self.pauses.at("embedding", worker.cancel_of(job.id)):
            return
        await embed_topics(worker, job)


@asynccontextmanager
async def shelf_of(script: Searching, content: bytes = DOGS) -> AsyncIterator[tuple[Library, str]]:
    async with library(script, embeds=script.embed) as shelf:
        store = (await shelf.create(content))["id"]
        await eventually(lambda: len(shelf.stage.receipts) == 1)
        script.imports = False
        yield shelf, store


@asynccontextmanager
async def beside(shelf: Library) -> AsyncIterator[httpx.AsyncClient]:
    """Another gateway, which knows both models."""
    async with gateway_beside(shelf.stage) as (gateway, client):
        shelf.worker.bus.send_status(shelf.worker.status)
        await eventually(lambda: gateway.models.find(EMBEDDER) is not None)
        yield client


async def lose(shelf: Library, id: str) -> None:
    """Let the run go to another gateway once it has logged what it has, as if its own had died."""
    run = shelf.stage.gateway.background.running(id)
    assert run is not None
    await run.flushed()
    runs(shelf.stage).runs[id] = replace(runs(shelf.stage).runs[id], runner="dead", lease=0.5)


def paid(shelf: Library, count: int) -> Callable[[], Awaitable[list[Receipt]]]:
    async def receipts() -> list[Receipt]:
        await eventually(lambda: len(shelf.stage.receipts) == 1 + count)
        return shelf.stage.receipts[1:]

    return receipts


def texts_of(body: dict[str, Any]) -> list[str]:
    return [each["content"][0]["text"] for each in body["output"] if each["type"] == "message"]


@pytest.mark.parametrize("forced", [False, True])
async def test_it_is_answered_at_once_searches_and_is_one_bill(*, forced: bool) -> None:
    async with shelf_of(Searching()) as (shelf, store):
        fields = {"tool_choice": FORCED} if forced else {}
        accepted = await respond(shelf, store, background=True, include=["file_search_call.results"], **fields)
        assert (accepted.status_code, accepted.json()["status"]) == (200, "queued"), accepted.text
        body = await until(shelf.client, accepted.json()["id"], "completed")
        before = [] if forced else ["message"]
        assert [each["type"] for each in body["output"]] == [*before, "file_search_call", "message"]
        search, message = body["output"][-2:]
        assert search["queries"] == [QUESTION if forced else "pies"]
        assert search["results"][0]["filename"] == "0.md"
        assert message["content"][0]["annotations"][0]["file_id"] == search["results"][0]["file_id"]
        assert body["passages"]["quoted"] == 1
        assert body["usage"]["parts"] == [
            {"model": EMBEDDER, "prompt_tokens": TOKENS_OF_A_TEXT, "completion_tokens": 0}
        ]
        jobs = 1 if forced else 2
        receipts = await paid(shelf, jobs + 1)()
        assert body["usage"]["output_tokens"] == sum(each.usage.completion_tokens for each in receipts)
        assert {each.outcome for each in receipts} == {Outcome.FINISHED}
        stored = runs(shelf.stage).receipts[body["id"]]
        assert sorted(each.job for each in stored) == sorted(each.job for each in receipts)


@pytest.mark.parametrize("phase", ["call", "embedding", "answer"])
async def test_another_gateway_goes_on_in_each_phase(phase: str) -> None:
    script = Searching(phase)
    async with shelf_of(script) as (shelf, store):
        accepted = (await respond(shelf, store, background=True, max_output_tokens=50)).json()
        await script.pauses.reached.wait()
        async with beside(shelf) as other:
            reading = asyncio.create_task(shelf.client.get(f"/v1/responses/{accepted['id']}?stream=true"))
            await asyncio.sleep(0.1)
            await lose(shelf, accepted["id"])
            body = await until(other, accepted["id"], "completed")
            whole = events((await reading).text)
            again = events((await other.get(f"/v1/responses/{accepted['id']}?stream=true")).text)
        assert whole == again
        for event in whole:
            EVENT.validate_python(event)
        assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
        assert whole[-1]["response"] == body
        assert [each["type"] for each in body["output"]] == ["message", "file_search_call", "message"]
        assert texts_of(body) == ["I look.", "".join(SEARCHED)]
        assert body["output"][2]["content"][0]["annotations"][0]["filename"] == "0.md"
        last = shelf.stage.worker.jobs[-1]
        assert last.delivered == ([[0, 1]] if phase == "answer" else [])
        prompts = {prompt_of(job) for job in shelf.stage.worker.jobs if "kennel" in prompt_of(job)}
        assert (len(prompts), functions_of(last)) == (1, ["file_search"])
        assert len({job.sampling.seed for job in shelf.stage.worker.jobs}) == 1
        lost = {"call": 1, "embedding": 2, "answer": 3}[phase]
        receipts = await paid(shelf, lost + {"call": 3, "embedding": 2, "answer": 1}[phase])()
        free = [each for each in receipts if not (each.usage.completion_tokens or each.usage.prompt_tokens)]
        assert (len(free), all(not each.parts for each in free)) == (lost, True)
        await assert_billed_once(receipts, body)


async def assert_billed_once(receipts: list[Receipt], body: dict[str, Any]) -> None:
    """All receipts together are what the response reports: of the model, and of the embedding model."""
    model = [each.usage for each in receipts if not each.job.startswith("embd-")]
    model += [part.usage for each in receipts for part in each.parts if part.model == MODEL]
    embedder = [each.usage for each in receipts if each.job.startswith("embd-")]
    embedder += [part.usage for each in receipts for part in each.parts if part.model == EMBEDDER]
    assert sum(each.completion_tokens for each in model) == body["usage"]["output_tokens"] == 8
    assert sum(each.prompt_tokens for each in model) == body["usage"]["input_tokens"]
    assert sum(each.prompt_tokens for each in embedder) == body["usage"]["parts"][0]["prompt_tokens"] == 3


async def test_a_gateway_that_stops_gives_its_searches_up() -> None:
    script = Searching("embedding")
    async with shelf_of(script) as (shelf, store):
        id = (await respond(shelf, store, background=True, max_output_tokens=50)).json()["id"]
        await script.pauses.reached.wait()
        await shelf.stage.gateway.background.close()
        async with beside(shelf) as other:
            body = await until(other, id, "completed")
        assert texts_of(body) == ["I look.", "".join(SEARCHED)]
        await assert_billed_once(await paid(shelf, 4)(), body)


async def revoke_key(shelf: Library) -> None:
    shelf.stage.accounts.revoked.add("key-1")


async def take_scope(shelf: Library) -> None:
    caller = await shelf.stage.accounts.authenticate(KEY)
    shelf.stage.accounts.added[KEY] = replace(caller, scopes=caller.scopes - {Scope.EMBEDDINGS})


async def forbid_embedder(shelf: Library) -> None:
    caller = await shelf.stage.accounts.authenticate(KEY)
    access = ModelAccess((ModelPolicy(PolicyMode.DENY, frozenset({EMBEDDER})),))
    shelf.stage.accounts.added[KEY] = replace(caller, models=access)


async def forbid_model(shelf: Library) -> None:
    caller = await shelf.stage.accounts.authenticate(KEY)
    access = ModelAccess((ModelPolicy(PolicyMode.DENY, frozenset({MODEL})),))
    shelf.stage.accounts.added[KEY] = replace(caller, models=access)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("take_away", [revoke_key, take_scope, forbid_embedder, forbid_model])
async def test_a_right_that_was_taken_away_ends_it_before_the_search(
    take_away: Callable[[Library], Awaitable[None]], *, elsewhere: bool
) -> None:
    script = Searching("call")
    gate = asyncio.Event()
    if not elsewhere:
        script.pauses.gate = gate
    async with shelf_of(script) as (shelf, store):
        embedded = len(shelf.worker.jobs)
        id = (await respond(shelf, store, background=True, max_output_tokens=50)).json()["id"]
        await script.pauses.reached.wait()
        await take_away(shelf)
        gate.set()
        if elsewhere:
            async with beside(shelf) as other:
                await lose(shelf, id)
                body = await ended(shelf, id)
                del other
        else:
            body = await ended(shelf, id)
        assert body["error"]["message"]
        assert [each["type"] for each in body["output"]][1:] == ["file_search_call"]
        assert body["output"][1]["status"] == "incomplete"
        assert len(shelf.worker.jobs) == embedded, "nothing is searched for"
        receipts = await paid(shelf, 2 if elsewhere else 1)()
        assert sum(each.usage.completion_tokens for each in receipts) == 3


async def ended(shelf: Library, id: str) -> dict[str, Any]:
    """The failed response, as the store has it: the key may not read it any more."""
    await eventually(lambda: runs(shelf.stage).runs[id].lease == 0.0)
    owner = runs(shelf.stage).responses.records[id].owner
    response = (await shelf.stage.gateway.responses.find(owner, id)).response
    assert response["status"] == "failed"
    return response


async def test_nothing_that_fits_is_answered_without_a_model() -> None:
    async with shelf_of(Searching(), RENT) as (shelf, store):
        accepted = await respond(shelf, store, "Where is the cat?", background=True, tool_choice=FORCED)
        body = await until(shelf.client, accepted.json()["id"], "completed")
        assert texts_of(body) == ["The answer to this question is not in your documents."]
        assert shelf.stage.worker.jobs == []
        (receipt,) = await paid(shelf, 1)()
        assert receipt.usage.prompt_tokens == body["usage"]["parts"][0]["prompt_tokens"] == TOKENS_OF_A_TEXT


async def test_words_alone_are_searched_for_without_an_embedding() -> None:
    weights = {"embedding_weight": 0.0, "text_weight": 1.0}
    async with shelf_of(Searching()) as (shelf, store):
        tool = {"ranking_options": {"hybrid_search": weights}}
        accepted = await respond(shelf, store, background=True, tool_choice=FORCED, tool=tool)
        body = await until(shelf.client, accepted.json()["id"], "completed")
        assert texts_of(body) == ["".join(SEARCHED)]
        absent = await respond(shelf, store, "What is the rent?", background=True, tool_choice=FORCED, tool=tool)
        body = await until(shelf.client, absent.json()["id"], "completed")
        assert texts_of(body) == ["The answer to this question is not in your documents."]


@pytest.mark.parametrize("phase", ["call", "embedding", "answer"])
async def test_it_is_cancelled_in_each_phase(phase: str) -> None:
    script = Searching(phase)
    async with shelf_of(script) as (shelf, store):
        id = (await respond(shelf, store, background=True, max_output_tokens=50)).json()["id"]
        await script.pauses.reached.wait()
        cancelled = (await shelf.client.post(f"/v1/responses/{id}/cancel")).json()
        assert cancelled["status"] == "cancelled"
        await eventually(shelf.stage.is_settled)


@pytest.mark.parametrize("forced", [False, True])
async def test_what_can_t_be_paid_is_refused_and_not_stored(*, forced: bool) -> None:
    async with shelf_of(Searching()) as (shelf, store):
        shelf.stage.billing.refusal = InsufficientCredit(10, 1)
        fields = {"tool_choice": FORCED} if forced else {}
        refused = await respond(shelf, store, background=True, **fields)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
        assert runs(shelf.stage).responses.records == {}


async def test_a_search_that_is_not_permitted_is_refused_and_not_stored() -> None:
    async with shelf_of(Searching()) as (shelf, store):
        await take_scope(shelf)
        refused = await respond(shelf, store, background=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")
        assert (await respond(shelf, "vs_none", background=True)).status_code in (403, 404)
        assert runs(shelf.stage).responses.records == {}


async def test_its_stream_is_that_of_a_response_in_the_foreground() -> None:
    async with shelf_of(Searching()) as (shelf, store):
        kinds = []
        for background in (False, True):
            text = (await respond(shelf, store, stream=True, background=background, max_output_tokens=50)).text
            kinds.append([each["type"] for each in events(text) if each["type"] != "response.queued"])
        assert kinds[0] == kinds[1]
