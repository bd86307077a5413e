"""Routes of Ollama's API: embeddings, models, errors in its shape, idempotency keys, and what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from gateway.dialects.ollama.models import OllamaEmbeddings, OllamaModelInfo, OllamaModelList
from router.bus import Bus
from router.messages import ChatPrompt, FailureCode, TextPrompt
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import ScriptedWorker, embed, fail
from tests.gateway.conftest import MODEL, SetStage, Stage, eventually
from tests.gateway.dialects.ollama.test_answer import BODY

EMBEDDER = "org/embedder"
ASK = {"model": MODEL, "prompt": "hi", "stream": False}


@pytest.fixture
async def stage(set_stage: SetStage) -> AsyncIterator[Stage]:
    """A model that generates and one that embeds."""
    stage = await set_stage()
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, EMBEDDER))
        await bus.start()
        stack.push_async_callback(bus.close)
        await stack.enter_async_context(ScriptedWorker(bus, EMBEDDER, embed, "worker-2", dimensions=4).running())
        await eventually(lambda: stage.gateway.models.find(EMBEDDER) is not None)
        yield stage


def error(response: httpx.Response) -> tuple[int, str]:
    assert response.json().keys() == {"error"}
    return response.status_code, response.json()["error"]


async def test_embeddings(stage: Stage) -> None:
    response = await stage.client.post("/api/embed", json={"model": EMBEDDER, "input": ["a", "b"], "truncate": True})
    body = response.json()
    OllamaEmbeddings.model_validate(body)
    assert body["embeddings"] == [[0, 0.125, 0, 0], [1, 0.125, 0, 0]]
    assert body["prompt_eval_count"] == 6
    one = await stage.client.post("/api/embed", json={"model": EMBEDDER, "input": "a", "dimensions": 2})
    assert one.json()["embeddings"] == [[0, 0.125]]
    older = await stage.client.post("/api/embeddings", json={"model": EMBEDDER, "prompt": "a"})
    assert older.json() == {"embedding": [0, 0.125, 0, 0]}


async def test_models_are_listed_and_shown(stage: Stage) -> None:
    listed = (await stage.client.get("/api/tags")).json()
    OllamaModelList.model_validate(listed)
    assert [model["name"] for model in listed["models"]] == [MODEL, EMBEDDER]
    shown = (await stage.client.post("/api/show", json={"model": MODEL})).json()
    OllamaModelInfo.model_validate(shown)
    assert shown["capabilities"] == ["completion", "tools"]
    assert shown["model_info"]["headrace.context_length"] == 128
    embedder = (await stage.client.post("/api/show", json={"model": EMBEDDER})).json()
    assert (embedder["capabilities"], embedder["model_info"]["headrace.embedding_length"]) == (["embedding"], 4)


async def test_the_version_needs_no_key(stage: Stage) -> None:
    response = await stage.client.get("/api/version", headers={"authorization": ""})
    assert response.json().keys() == {"version"}


async def test_errors_have_ollamas_shape(stage: Stage) -> None:
    post = stage.client.post
    assert error(await post("/api/chat", json=BODY, headers={"authorization": "Bearer x"}))[0] == 401
    assert error(await post("/api/chat", json=BODY | {"model": "org/none"}))[0] == 404
    assert error(await post("/api/chat", json=BODY | {"options": {"top_p": 2}}))[0] == 400
    assert error(await post("/api/embed", json={"model": MODEL, "input": "a"}))[0] == 400
    assert error(await post("/api/show", json={"model": "org/none"}))[0] == 404
    assert error(await stage.client.get("/api/chat"))[0] == 405
    assert error(await post("/api/generate", json=ASK, headers={"content-encoding": "gzip"}))[0] == 415
    assert stage.worker.jobs == []


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
@pytest.mark.parametrize("key", [{}, {"idempotency-key": "one"}])
async def test_bodies_need_no_content_type(stage: Stage, kind: str | None, key: dict[str, str]) -> None:
    """H9: `curl -d` and LiteLLM send JSON under another type or none; the API key is still required."""
    headers = key | ({"content-type": kind} if kind else {})
    answer = await stage.client.post("/api/generate", content=json.dumps(ASK), headers=headers)
    assert (answer.status_code, answer.json()["done"]) == (200, True)
    anonymous = headers | {"authorization": ""}
    assert error(await stage.client.post("/api/generate", content=json.dumps(ASK), headers=anonymous))[0] == 401


async def test_a_failure_after_the_first_token_is_a_line(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    response = await stage.client.post("/api/chat", json=BODY)
    assert response.text.endswith('\n{"error":"No."}\n')


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("POST", f"/api/{action}") for action in ("pull", "push", "create", "copy")),
        ("DELETE", "/api/delete"),
        ("GET", "/api/ps"),
        ("POST", "/api/blobs/sha256:0"),
    ],
)
async def test_models_are_managed_by_the_operator(stage: Stage, method: str, path: str) -> None:
    status, message = error(await stage.client.request(method, path, json={"model": "x"}))
    assert (status, "managed by the operator" in message) == (400, True)


async def test_a_request_without_a_prompt_only_loads_the_model(stage: Stage) -> None:
    for path, fields in (("/api/chat", {"messages": []}), ("/api/generate", {})):
        body = (await stage.client.post(path, json={"model": MODEL} | fields)).json()
        assert (body["done"], body["done_reason"]) == (True, "load")
        assert error(await stage.client.post(path, json={"model": "org/none"} | fields))[0] == 404
    assert stage.worker.jobs == []


async def test_prompts_reach_the_worker_in_the_template_or_raw(stage: Stage) -> None:
    for fields in ({"system": "Be brief."}, {"raw": True}, {"suffix": "end"}):
        assert (await stage.client.post("/api/generate", json=ASK | fields)).json()["response"] == "0 1 2 3 4 "
    chat, raw, middle = (job.prompt for job in stage.worker.jobs)
    assert isinstance(chat, ChatPrompt)
    assert [message["role"] for message in chat.messages] == ["system", "user"]
    assert (raw, middle) == (TextPrompt("hi"), TextPrompt("hi", "end"))
    assert stage.worker.jobs[1].sampling.max_tokens is None


async def test_a_raw_prompt_needs_the_scope_of_completions(stage: Stage) -> None:
    key = "hr_live_chat"
    stage.accounts.added[key] = Principal("k", "t", "s", scopes=frozenset({Scope.CHAT_COMPLETIONS}))
    headers = {"authorization": f"Bearer {key}"}
    assert (await stage.client.post("/api/generate", json=ASK, headers=headers)).status_code == 200
    refused = await stage.client.post("/api/generate", json=ASK | {"raw": True}, headers=headers)
    assert error(refused)[0] == 403


@pytest.mark.parametrize("stream", [False, True])
async def test_an_idempotency_key_runs_a_request_once(stage: Stage, stream: bool) -> None:
    headers: Any = {"idempotency-key": "k"}
    first = await stage.client.post("/api/chat", json=BODY | {"stream": stream}, headers=headers)
    again = await stage.client.post("/api/chat", json=BODY | {"stream": stream}, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content
    assert len(stage.worker.jobs) == 1


async def test_a_stream_that_failed_is_not_replayed(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    for _ in range(2):
        await stage.client.post("/api/chat", json=BODY, headers={"idempotency-key": "k"})
    assert len(stage.worker.jobs) == 2
