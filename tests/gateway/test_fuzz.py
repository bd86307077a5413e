"""Requests drawn from our own OpenAPI document, right and wrong ones, at a gateway with scripted workers.

Checked of each answer: no 5xx, the error body of the route's API, answers as described, streams that end. Draws are
the same in every run.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any, cast

import msgspec
import pytest
import schemathesis
from fastapi.routing import iter_route_contexts
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode, Response
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance
from schemathesis.specs.openapi.schemas import OpenApiSchema

from auth_billing.access.principal import Principal
from auth_billing.access.roles import OPERATORS
from auth_billing.access.scopes import ADMIN_SCOPES
from gateway.answers.event_frames import STREAM_ENDS
from gateway.http.routes import operator, organization
from router.bus import Bus
from router.messages import Task
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import LABELS, Script, ScriptedWorker, classify, count, draw, embed, score, tokenise
from tests.gateway.conftest import KEY, MODEL, eventually, served

EMBEDDER = "org/embedder"
PAINTER = "org/painter"
SCORER = "org/scorer"
CLASSIFIER = "org/classifier"
TOKENISER = "org/tokeniser"
OTHERS: list[tuple[str, Script, dict[str, Any]]] = [
    (EMBEDDER, embed, {"dimensions": 4}),
    (PAINTER, draw, {"image_sizes": ["512x512", "512x256"]}),
    (SCORER, score, {"task": Task.SCORE}),
    (CLASSIFIER, classify, {"task": Task.SCORE, "labels": LABELS}),
    (TOKENISER, tokenise, {"tokenises": True}),
]
"""Models beside the one that generates, with their scripts and the fields of their heartbeats."""
EXAMPLES = 12
OPERATIONS = [
    ("POST", "/v1/chat/completions", MODEL),
    ("POST", "/v1/responses", MODEL),
    ("GET", "/v1/chat/completions", None),
    ("GET", "/v1/chat/completions/{completion_id}", None),
    ("POST", "/v1/chat/completions/{completion_id}", None),
    ("DELETE", "/v1/chat/completions/{completion_id}", None),
    ("GET", "/v1/chat/completions/{completion_id}/messages", None),
    ("POST", "/v1/responses/input_tokens", MODEL),
    ("POST", "/v1/responses/compact", MODEL),
    ("GET", "/v1/responses/{response_id}", None),
    ("DELETE", "/v1/responses/{response_id}", None),
    ("POST", "/v1/responses/{response_id}/cancel", None),
    ("GET", "/v1/responses/{response_id}/input_items", None),
    ("POST", "/v1/messages", MODEL),
    ("POST", "/v1/messages/count_tokens", TOKENISER),
    ("POST", "/api/chat", MODEL),
    ("POST", "/api/generate", MODEL),
    ("POST", "/api/embed", EMBEDDER),
    ("POST", "/api/embeddings", EMBEDDER),
    ("POST", "/api/show", MODEL),
    ("GET", "/api/tags", None),
    ("POST", "/v1/conversations", None),
    ("GET", "/v1/conversations/{conversation_id}", None),
    ("POST", "/v1/conversations/{conversation_id}", None),
    ("DELETE", "/v1/conversations/{conversation_id}", None),
    ("POST", "/v1/conversations/{conversation_id}/items", None),
    ("GET", "/v1/conversations/{conversation_id}/items", None),
    ("GET", "/v1/conversations/{conversation_id}/items/{item_id}", None),
    ("DELETE", "/v1/conversations/{conversation_id}/items/{item_id}", None),
    ("POST", "/v1/completions", MODEL),
    ("POST", "/v1/embeddings", EMBEDDER),
    ("POST", "/v1/images/generations", PAINTER),
    ("POST", "/v1/score", SCORER),
    ("POST", "/v1/rerank", SCORER),
    ("POST", "/v1/moderations", CLASSIFIER),
    ("POST", "/v1/tokenize", TOKENISER),
    ("POST", "/v1/detokenize", TOKENISER),
    ("POST", "/v1/mcp", None),
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/{name}", None),
    ("DELETE", "/v1/models/{name}", None),
    ("GET", "/v1/blobs/{blob_id}", None),
    ("POST", "/v1/files", None),
    ("GET", "/v1/files", None),
    ("GET", "/v1/files/{file_id}", None),
    ("DELETE", "/v1/files/{file_id}", None),
    ("GET", "/v1/files/{file_id}/content", None),
    ("POST", "/v1/batches", None),
    ("GET", "/v1/batches", None),
    ("GET", "/v1/batches/{batch_id}", None),
    ("POST", "/v1/batches/{batch_id}/cancel", None),
    ("POST", "/v1/vector_stores", None),
    ("GET", "/v1/vector_stores", None),
    ("GET", "/v1/vector_stores/{vector_store_id}", None),
    ("POST", "/v1/vector_stores/{vector_store_id}", None),
    ("DELETE", "/v1/vector_stores/{vector_store_id}", None),
    ("POST", "/v1/vector_stores/{vector_store_id}/search", None),
    ("POST", "/v1/vector_stores/{vector_store_id}/files", None),
    ("GET", "/v1/vector_stores/{vector_store_id}/files", None),
    ("GET", "/v1/vector_stores/{vector_store_id}/files/{file_id}", None),
    ("POST", "/v1/vector_stores/{vector_store_id}/files/{file_id}", None),
    ("DELETE", "/v1/vector_stores/{vector_store_id}/files/{file_id}", None),
    ("GET", "/v1/vector_stores/{vector_store_id}/files/{file_id}/content", None),
    ("POST", "/v1/vector_stores/{vector_store_id}/file_batches", None),
    ("GET", "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}", None),
    ("POST", "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel", None),
    ("GET", "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files", None),
    ("POST", "/v1/uploads", None),
    ("POST", "/v1/uploads/{upload_id}/parts", None),
    ("POST", "/v1/uploads/{upload_id}/complete", None),
    ("POST", "/v1/uploads/{upload_id}/cancel", None),
]
ADMIN_KEY = "hr_live_admin"
ADMIN_EXAMPLES = 4
ADMINISTRATION = [
    (method, str(route.path).replace(":path}", "}"))
    for router in (organization.router, operator.router)
    for route in iter_route_contexts(router.routes)
    for method in sorted(route.methods or ())
    if route.include_in_schema
]


async def _serve(url: Future[str], stop: Future[None]) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(served(count, shutdown_grace=0.0))
        workers = [server.stage.worker]
        workers[0].status = msgspec.structs.replace(workers[0].status, searches=True)
        for number, (model, script, fields) in enumerate(OTHERS, start=2):
            bus = Bus(MemoryTransport(server.stage.broker, f"worker-{number}"))
            await bus.start()
            stack.push_async_callback(bus.close)
            worker = ScriptedWorker(bus, model, script, f"worker-{number}", **fields)
            workers.append(await stack.enter_async_context(worker.running()))
        models = server.stage.gateway.models
        await eventually(lambda: all(models.find(name) is not None for name, _, _ in OTHERS))
        server.stage.accounts.added[ADMIN_KEY] = Principal("admin", OPERATORS, "salt", scopes=ADMIN_SCOPES)
        url.set_result(server.url.removesuffix("/v1"))
        beating = asyncio.create_task(_beat(*workers))
        await asyncio.wrap_future(stop)
        beating.cancel()


async def _beat(*workers: ScriptedWorker) -> None:
    while True:
        for worker in workers:
            worker.bus.send_status(worker.status)
        await asyncio.sleep(1)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A gateway in its own thread, because the requests are sent by blocking code."""
    started: Future[str] = Future()
    stop: Future[None] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(started, stop)))
    thread.start()
    try:
        yield started.result(timeout=20)
    finally:
        stop.set_result(None)
        thread.join()


@pytest.fixture(scope="module")
def api(url: str) -> OpenApiSchema:
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


def test_every_operation_is_drawn_from(api: OpenApiSchema) -> None:
    found = [cast(Ok[Any], operation).ok() for operation in api.get_all_operations()]
    assert {(each.method.upper(), each.path) for each in found if each.path.startswith(("/v1", "/api"))} == {
        *((method, path) for method, path, _ in OPERATIONS),
        ("GET", "/api/version"),  # has neither a key nor parameters
        *ADMINISTRATION,
    }


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("method", "path", "model"), OPERATIONS)
def test_generated_requests_get_documented_responses(
    api: OpenApiSchema, method: str, path: str, model: str | None, mode: GenerationMode
) -> None:
    draw_requests(api, method, path, mode, model, KEY, EXAMPLES)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_generated_admin_requests_get_documented_responses(api: OpenApiSchema, mode: GenerationMode) -> None:
    for method, path in ADMINISTRATION:
        draw_requests(api, method, path, mode, None, ADMIN_KEY, ADMIN_EXAMPLES)


def draw_requests(
    api: OpenApiSchema, method: str, path: str, mode: GenerationMode, model: str | None, key: str, examples: int
) -> None:
    operation = api[path][method]

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Case[Any]) -> None:
        ask_for(case, model)
        # A schema can't say all: that tool results follow their calls, or that 2.0 is no integer in JSON's spelling.
        response = case.call(headers={"Authorization": f"Bearer {key}"})
        if response.status_code != 413:  # an answer that schemathesis has not heard of to what it draws by megabytes
            case.validate_response(response, excluded_checks=[positive_data_acceptance])
        check(response)

    send()


def ask_for(case: Case[Any], model: str | None) -> None:
    """Use an existing model name where any valid name is drawn, so that the checks after the look-up are reached."""
    if (
        isinstance(case.body, dict)
        and isinstance(name := case.body.get("model"), str)
        and model
        and 0 < len(name) <= 128
    ):
        case.body["model"] = model


def check(response: Response) -> None:
    assert response.headers["x-request-id"][0].startswith("req_")
    if response.status_code >= 400:
        body = json.loads(response.content)
        error: dict[str, Any] = body["error"]
        if isinstance(error, str):  # of Ollama's routes
            return
        if body.get("type") == "error":  # of Anthropic's routes
            assert error.keys() == {"type", "message"}
            return
        if "jsonrpc" in body:  # of `/v1/mcp`
            assert isinstance(error["code"], int)
            return
        assert error.keys() == {"message", "type", "param", "code"}
        assert isinstance(error["message"], str)
    elif response.headers.get("content-type", [""])[0].startswith(("text/event-stream", "application/x-ndjson")):
        assert response.content.endswith(STREAM_ENDS)
