"""Stored responses: retrieved, continued, listed and deleted, also at another gateway, and by their project only."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from auth_billing.access.principal import Principal
from gateway.http.response_input import INLINE_PARTS
from router.bus import Bus
from router.messages import ChatPrompt, FailureCode, Outcome, TokenisationPrompt
from router.transport.memory import MemoryTransport
from stored_objects.objects.quota import CountSubject
from stored_objects.project_documents.records import ProjectOwner
from tests.fakes.byte_counts import MIB
from tests.fakes.project_documents import DictDocumentStore
from tests.fakes.scripted_worker import ScriptedWorker, fail, say, tokenise
from tests.gateway.conftest import KEY, MODEL, OTHER_KEY, SetStage, Stage, eventually, gateway_beside
from tests.gateway.http.routes.test_responses import CALLS, WEATHER, events, respond

SECOND_KEY, OTHER_PROJECT = "hr_live_second", "hr_live_other_project"
PROJECT = ProjectOwner("tenant-1", "project-1")
"""The project of the first key."""
UNKNOWN = f"resp_{'0' * 32}"


def client(http: Any, key: str = KEY) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key=key, base_url="http://gateway/v1", http_client=http, max_retries=0)


def stored(stage: Stage) -> DictDocumentStore:
    """The store of responses."""
    store = stage.gateway.documents.responses.store
    assert isinstance(store, DictDocumentStore)
    return store


async def counted(stage: Stage) -> int:
    """The bytes that the documents of all projects count."""
    await stage.gateway.documents.quota.close()
    return await stage.gateway.documents.quota.quotas.used(CountSubject(PROJECT.organisation))


def prompt(stage: Stage) -> list[dict[str, Any]]:
    """The messages of the last job."""
    last = stage.worker.jobs[-1].prompt
    assert isinstance(last, ChatPrompt)
    return last.messages


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_is_stored_by_one_write_and_read_at_another_gateway(
    set_stage: SetStage, streamed: bool
) -> None:
    stage = await set_stage(CALLS)
    answered = await respond(stage, tools=[WEATHER], metadata={"a": "b"}, stream=streamed)
    body = events(answered.text)[-1]["response"] if streamed else answered.json()
    assert body["store"] is True
    assert stored(stage).writes == 1
    async with gateway_beside(stage) as (_, http):
        found = await client(http).responses.retrieve(body["id"])
        assert found.model_dump(exclude_unset=True) == Response.model_validate(body).model_dump(exclude_unset=True)
        (item,) = (await client(http).responses.input_items.list(body["id"])).data
    assert item.model_dump(exclude_unset=True) == {
        "type": "message",
        "id": item.id,
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "hi"}],
    }


async def test_a_long_context_is_read_like_a_short_one(set_stage: SetStage) -> None:
    stage = await set_stage(say("end"))
    items = [{"role": "user", "content": f"{number}"} for number in range(INLINE_PARTS)]
    first = (await respond(stage, items)).json()
    await respond(stage, "last", previous_response_id=first["id"])
    texts = [f"{message['content']}" for message in prompt(stage)]
    assert texts[-2:] == ["end", "last"]
    assert len(texts) == INLINE_PARTS + 2


async def test_a_response_continues_a_chain_of_stored_ones(set_stage: SetStage) -> None:
    stage = await set_stage(CALLS)
    first = (await respond(stage, "one", tools=[WEATHER], instructions="Be brief.")).json()
    stage.worker.script = say("rain")
    outputs = [{"type": "function_call_output", "call_id": f"call_{each}", "output": "4 °C"} for each in "ab"]
    second = (await respond(stage, outputs, tools=[WEATHER], previous_response_id=first["id"])).json()
    async with gateway_beside(stage) as (_, http):
        third = await client(http).responses.create(model=MODEL, input="two", previous_response_id=second["id"])
    assert third.previous_response_id == second["id"]
    roles = [message["role"] for message in prompt(stage)]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
    contents = [message["content"] for message in prompt(stage)]
    assert contents == ["one", "I look.", "4 °C", "4 °C", "rain", "two"]
    await stage.client.delete(f"/v1/responses/{first['id']}")
    broken = await respond(stage, "x", previous_response_id=second["id"])
    error = broken.json()["error"]
    assert (broken.status_code, error["code"], error["param"]) == (
        400,
        "previous_response_not_found",
        "previous_response_id",
    )


async def test_references_are_replaced_by_stored_items(set_stage: SetStage) -> None:
    stage = await set_stage(say("so"))
    first = (await respond(stage, "one")).json()
    listed = (await stage.client.get(f"/v1/responses/{first['id']}/input_items")).json()["data"]
    ids = [listed[0]["id"], first["output"][0]["id"]]
    given = [*({"type": "item_reference", "id": each} for each in ids), {"role": "user", "content": "two"}]
    second = (await respond(stage, given)).json()
    assert [message["content"] for message in prompt(stage)] == ["one", "so", "two"]
    (await respond(stage, "three", previous_response_id=second["id"])).raise_for_status()
    assert [message["content"] for message in prompt(stage)] == ["one", "so", "two", "so", "three"]
    missing = await respond(stage, [{"type": "item_reference", "id": f"{ids[1]}9"}])
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "input")


async def test_other_projects_and_tenants_can_t_tell_that_it_exists(set_stage: SetStage) -> None:
    stage = await set_stage()
    body = (await respond(stage)).json()
    stage.accounts.added[SECOND_KEY] = Principal("key-3", "tenant-1", "salt-1", project="project-1", user="ada")
    stage.accounts.added[OTHER_PROJECT] = Principal("key-4", "tenant-1", "salt-1", project="project-2")
    assert (await client(stage.client, SECOND_KEY).responses.retrieve(body["id"])).id == body["id"]
    for key in (OTHER_KEY, OTHER_PROJECT):
        headers = {"authorization": f"Bearer {key}"}
        answers = []
        for each in (body["id"], UNKNOWN):
            path = f"/v1/responses/{each}"
            given = {"model": MODEL, "input": "hi", "previous_response_id": each}
            reference = {"model": MODEL, "input": [{"type": "item_reference", "id": f"msg_{each[5:]}0000"}]}
            found = [
                await stage.client.get(path, headers=headers),
                await stage.client.get(f"{path}/input_items", headers=headers),
                await stage.client.delete(path, headers=headers),
                await stage.client.post("/v1/responses", json=given, headers=headers),
                await stage.client.post("/v1/responses", json=reference, headers=headers),
            ]
            answers.append(
                [(each.status_code, each.text.replace(body["id"][5:], "").replace("0" * 32, "")) for each in found]
            )
        assert answers[0] == answers[1]
        assert [status for status, _ in answers[0]] == [404, 404, 404, 400, 400]
    assert (await client(stage.client).responses.retrieve(body["id"])).id == body["id"]


async def test_a_deleted_response_is_gone(set_stage: SetStage) -> None:
    stage = await set_stage()
    body = (await respond(stage)).json()
    deleted = await stage.client.delete(f"/v1/responses/{body['id']}")
    assert deleted.json() == {"id": body["id"], "object": "response", "deleted": True}
    with pytest.raises(openai.NotFoundError) as missing:
        await client(stage.client).responses.retrieve(body["id"])
    assert missing.value.message.endswith(f"No object with the id '{body['id']}' was found.")
    assert (missing.value.type, missing.value.code) == ("invalid_request_error", "not_found")
    assert stored(stage).records == {}
    assert (await stage.client.delete("/v1/responses/a%20b")).status_code == 404


async def test_a_failed_stream_is_stored_and_a_response_without_store_is_not(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    frames = (await respond(stage, stream=True)).text
    assert "response.failed" in frames
    (id,) = stored(stage).records
    assert (await client(stage.client).responses.retrieve(id)).status == "failed"
    stage.worker.script = say("a")
    body = (await respond(stage, store=False)).json()
    assert body["store"] is False
    assert (await stage.client.get(f"/v1/responses/{body['id']}")).status_code == 404


async def test_an_answer_is_delivered_though_the_store_does_not_take_it(set_stage: SetStage) -> None:
    stage = await set_stage(say("a"))
    stored(stage).is_down = True
    body = (await respond(stage)).json()
    assert (body["status"], body["store"], body["output"][0]["content"][0]["text"]) == ("completed", False, "a")


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_to_a_full_project_is_delivered_and_not_stored(set_stage: SetStage, streamed: bool) -> None:
    stage = await set_stage(say("a"))
    await stage.gateway.documents.quota.reserve(PROJECT, 100 * MIB)
    answered = await respond(stage, stream=streamed)
    body = events(answered.text)[-1]["response"] if streamed else answered.json()
    assert (body["status"], body["store"], body["output"][0]["content"][0]["text"]) == ("completed", False, "a")
    assert stored(stage).records == {}
    assert (await stage.receipt()).outcome is Outcome.FINISHED


async def test_a_response_is_counted_until_it_is_deleted(set_stage: SetStage) -> None:
    stage = await set_stage(say("a"))
    body = (await respond(stage, "hello")).json()
    (document,) = stored(stage).records.values()
    assert await counted(stage) == document.size
    await stage.client.delete(f"/v1/responses/{body['id']}")
    assert await counted(stage) == 0


async def test_input_items_are_listed_in_pages(set_stage: SetStage) -> None:
    stage = await set_stage()
    given: list[Any] = [{"role": "user", "content": f"{number}"} for number in range(5)]
    body = (await respond(stage, given)).json()
    sdk = client(stage.client).responses.input_items
    for order, expected in (("desc", "43210"), ("asc", "01234")):
        items: list[Any] = [item async for item in sdk.list(body["id"], limit=2, order=order)]  # type: ignore[arg-type]
        assert "".join(item.content[0].text for item in items) == expected
    wrong = await stage.client.get(f"/v1/responses/{body['id']}/input_items?after=msg_x")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "after")


async def test_the_input_s_tokens_are_counted_with_its_context(set_stage: SetStage) -> None:
    stage = await set_stage(say("so"))
    first = (await respond(stage, "one")).json()
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, "org/tokeniser", tokenise, "worker-2", tokenises=True)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: stage.gateway.models.find("org/tokeniser") is not None)
        fields: dict[str, Any] = {"previous_response_id": first["id"], "tools": [WEATHER], "instructions": "Be."}
        counter = client(stage.client).responses.input_tokens
        counted = await counter.count(model="org/tokeniser", input="two", **fields)
        prompted = worker.jobs[-1].prompt
    assert counted.input_tokens > 0
    assert isinstance(prompted, TokenisationPrompt)
    assert isinstance(prompted.source, ChatPrompt)
    assert [each["content"] for each in prompted.source.messages] == ["Be.", "one", "so", "two"]
    assert prompted.source.tools is not None
    empty = await stage.client.post("/v1/responses/input_tokens", json={"model": MODEL})
    assert (empty.status_code, empty.json()["error"]["param"]) == (400, "input")
