"""Files, encrypted reasoning and compacted contexts of `/v1/responses`, as OpenAI's client sends and reads them."""

from __future__ import annotations

import base64
from typing import Any

import openai
import pytest

from auth_billing.access.principal import Principal
from gateway.openai.responses.compaction import MAX_SUMMARY_TOKENS, PROMPT
from gateway.openai.responses.encrypted_items import SUMMARY_REQUEST
from router.messages import ChatPrompt, Outcome
from tests.fakes.scripted_worker import count, say
from tests.gateway.conftest import MODEL, Serve, Served, SetStage, Stage, eventually
from tests.gateway.http.routes.test_responses import answer, events, respond

OTHER_PROJECT = "hr_live_other_project"
ENCRYPTED: Any = ["reasoning.encrypted_content"]
THINK = answer({"reasoning": "Because "}, {"reasoning": "of Łódź."}, {"text": "Yes."})


def other_project(stage: Stage, server: Served) -> openai.AsyncOpenAI:
    """A client with a key of another project of the same organisation."""
    stage.accounts.added[OTHER_PROJECT] = Principal("key-3", "tenant-1", "salt-1", project="project-2")
    return server.client.with_options(api_key=OTHER_PROJECT)


def messages(stage: Stage) -> list[dict[str, Any]]:
    """The messages of the last job."""
    prompt = stage.worker.jobs[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


async def test_files_of_the_project_and_of_the_request_are_in_the_prompt(serve: Serve) -> None:
    server = await serve(say("Two."))
    client = server.client
    file = await client.files.create(file=("notes.md", b"- one\n- two"), purpose="user_data")
    data = f"data:text/plain;base64,{base64.b64encode(b'x = 1').decode()}"
    parts: list[Any] = [
        {"type": "input_file", "file_id": file.id},
        {"type": "input_file", "file_data": data, "filename": "x.py"},
        {"type": "input_text", "text": "How many?"},
    ]
    response = await client.responses.create(model=MODEL, input=[{"role": "user", "content": parts}])
    expected = '<file name="notes.md">\n- one\n- two\n</file>\n<file name="x.py">\nx = 1\n</file>\nHow many?'
    assert messages(server.stage) == [{"role": "user", "content": expected}]
    await client.responses.create(model=MODEL, input="And now?", previous_response_id=response.id)
    assert messages(server.stage)[0] == {"role": "user", "content": expected}
    of_chat: list[Any] = [
        {"type": "file", "file": {"file_id": file.id}},
        {"type": "file", "file": {"file_data": data, "filename": "x.py"}},
        {"type": "text", "text": "How many?"},
    ]
    await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": of_chat}])
    assert messages(server.stage) == [{"role": "user", "content": expected}]
    with pytest.raises(openai.BadRequestError, match="no such file") as refused:
        await other_project(server.stage, server).responses.create(
            model=MODEL, input=[{"role": "user", "content": parts}]
        )
    assert refused.value.param == "input"


async def test_encrypted_reasoning_is_the_models_again(serve: Serve) -> None:
    server = await serve(THINK)
    client = server.client
    response = await client.responses.create(model=MODEL, input="hi", store=False, include=ENCRYPTED)
    reasoning = response.output[0]
    assert reasoning.type == "reasoning"
    assert reasoning.encrypted_content
    assert "Łódź" not in reasoning.encrypted_content
    bare = {"type": "reasoning", "id": reasoning.id, "summary": [], "encrypted_content": reasoning.encrypted_content}
    given: list[Any] = [
        {"role": "user", "content": "hi"},
        bare,
        response.output[1].model_dump(),
        {"role": "user", "content": "And?"},
    ]
    await client.responses.create(model=MODEL, input=given, store=False)
    assert messages(server.stage)[1] == {
        "role": "assistant",
        "content": "Yes.",
        "reasoning_content": "Because of Łódź.",
    }
    forged = [given[0], {**bare, "encrypted_content": "A" + reasoning.encrypted_content[1:]}, *given[2:]]
    for sender, items in ((client, forged), (other_project(server.stage, server), given)):
        with pytest.raises(openai.BadRequestError) as refused:
            await sender.responses.create(model=MODEL, input=items, store=False)
        assert (refused.value.code, refused.value.param) == ("invalid_encrypted_content", "input")
    assert len(server.stage.worker.jobs) == 2


@pytest.mark.parametrize("fields", [{}, {"reasoning": {"summary": "auto"}}])
async def test_the_stream_has_encrypted_reasoning_where_its_item_ends(
    set_stage: SetStage, fields: dict[str, Any]
) -> None:
    stage = await set_stage(THINK)
    found = events((await respond(stage, stream=True, include=ENCRYPTED, **fields)).text)
    (done,) = [each["item"] for each in found if each["type"] == "response.output_item.done"][:1]
    assert done["encrypted_content"]
    assert found[-1]["response"]["output"][0] == done
    plain = (await respond(stage, **fields)).json()
    assert "encrypted_content" not in plain["output"][0]


async def test_a_stored_response_with_encrypted_reasoning_is_continued(set_stage: SetStage) -> None:
    stage = await set_stage(THINK)
    first = (await respond(stage, include=ENCRYPTED)).json()
    await respond(stage, "And?", previous_response_id=first["id"])
    assert messages(stage)[1]["reasoning_content"] == "Because of Łódź."


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the client's type has no users' messages
async def test_a_compacted_context_takes_the_place_of_the_context(serve: Serve) -> None:
    server = await serve(say("Ada ", "asked. "))
    client, stage = server.client, server.stage
    first = await client.responses.create(model=MODEL, input="I am Ada.")
    question: Any = {"role": "user", "content": "Who am I?"}
    compacted = await client.responses.compact(model=MODEL, previous_response_id=first.id, input=[question])
    assert [message["content"] for message in messages(stage)] == ["I am Ada.", "Ada asked. ", PROMPT]
    assert [item.type for item in compacted.output] == ["compaction", "message"]
    assert (compacted.object, compacted.usage.output_tokens) == ("response.compaction", 2)
    await eventually(lambda: len(stage.receipts) == 2)
    assert {receipt.outcome for receipt in stage.receipts} == {Outcome.FINISHED}

    items: Any = compacted.output
    response = await client.responses.create(model=MODEL, input=items)
    expected = [("user", SUMMARY_REQUEST), ("assistant", "Ada asked."), ("user", "Who am I?")]
    assert [(each["role"], each["content"]) for each in messages(stage)] == expected
    await client.responses.compact(model=MODEL, previous_response_id=response.id)
    assert [each["content"] for each in messages(stage)[:3]] == [content for _, content in expected]
    with pytest.raises(openai.BadRequestError) as refused:
        await other_project(stage, server).responses.create(model=MODEL, input=items)
    assert refused.value.code == "invalid_encrypted_content"


async def test_a_summary_is_limited_and_ends_with_its_last_whole_sentence(set_stage: SetStage) -> None:
    stage = await set_stage(answer({"text": "Ada asked. "}, {"text": "She wan"}, finish="length"))
    compacted = (await stage.client.post("/v1/responses/compact", json={"model": MODEL, "input": "hi"})).json()
    assert stage.worker.jobs[0].sampling.default_max_tokens == MAX_SUMMARY_TOKENS
    await respond(stage, compacted["output"])
    assert messages(stage)[1] == {"role": "assistant", "content": "Ada asked."}


async def test_a_context_is_not_replaced_by_a_summary_without_a_whole_sentence(serve: Serve) -> None:
    server = await serve(count)
    with pytest.raises(openai.BadRequestError, match="'length'") as refused:
        await server.client.responses.compact(model=MODEL, input="hi")
    assert refused.value.code == "compaction_failed"


async def test_a_context_is_not_replaced_by_an_empty_summary(serve: Serve) -> None:
    server = await serve(say(" ", "\n"))
    with pytest.raises(openai.BadRequestError) as refused:
        await server.client.responses.compact(model=MODEL, input="hi")
    assert refused.value.code == "compaction_failed"
    with pytest.raises(openai.BadRequestError, match="no item"):
        await server.client.responses.compact(model=MODEL, input=[])
