"""`/v1/embeddings`: one job per request, one vector per input, in order."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from gateway.openai.embeddings import EmbeddingList
from router.bus import Bus
from router.messages import Embedded, EmbeddingPrompt, FailureCode, Finished, Job, Started, Usage
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import Script, ScriptedWorker, embed, fail, vector
from tests.gateway.conftest import KEY, MODEL, SetStage, Stage, eventually

EMBEDDER = "org/embedder"
DIMENSIONS = 4


@dataclass
class Embedding:
    """A stage with a worker that embeds beside the one that generates."""

    stage: Stage
    worker: ScriptedWorker

    async def __call__(self, value: Any = "hi", **fields: Any) -> httpx.Response:
        body = {"model": EMBEDDER, "input": value, **fields}
        return await self.stage.client.post("/v1/embeddings", json=body)


@pytest.fixture
async def embedding(set_stage: SetStage) -> AsyncIterator[Embedding]:
    stage = await set_stage()
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, EMBEDDER, embed, "worker-2", dimensions=DIMENSIONS)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: stage.gateway.models.find(EMBEDDER) is not None)
        yield Embedding(stage, worker)


def numbers(vector: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        ([5, 6], [[5, 6]]),
        ([[5, 6], [7]], [[5, 6], [7]]),
    ],
)
async def test_the_four_forms_of_input(embedding: Embedding, given: Any, inputs: list[Any]) -> None:
    response = await embedding(given, user="user-1")
    assert response.status_code == 200
    body = response.json()
    EmbeddingList.model_validate(body)
    (job,) = embedding.worker.jobs
    assert job.prompt == EmbeddingPrompt(inputs=inputs)
    assert body["object"] == "list"
    assert body["model"] == EMBEDDER
    assert body["data"] == [
        {"object": "embedding", "index": index, "embedding": [float(index), 0.125, 0.0, 0.0]}
        for index in range(len(inputs))
    ]
    tokens = sum(3 if isinstance(each, str) else len(each) for each in inputs)
    assert body["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


async def test_base64_has_the_same_float32_values(embedding: Embedding) -> None:
    plain = (await embedding(["a", "b"])).json()["data"]
    response = await embedding(["a", "b"], encoding_format="base64")
    EmbeddingList.model_validate(response.json())
    coded = [numbers(base64.b64decode(each["embedding"])) for each in response.json()["data"]]
    assert coded == [each["embedding"] for each in plain]


async def test_nine_digits_preserve_float32(embedding: Embedding) -> None:
    values = [1 / 3, -1e-30, 3.4e38, 0.1]
    exact = struct.pack("<4f", *values)

    async def odd(worker: ScriptedWorker, job: Job) -> None:
        worker.send(job, Embedded(job_id=job.id, attempt_id="a", start=0, vectors=[exact]))
        worker.send(job, Finished(job_id=job.id, attempt_id="a", usage=Usage(prompt_tokens=1)))

    embedding.worker.script = odd
    (got,) = (await embedding("x")).json()["data"]
    assert struct.pack("<4f", *got["embedding"]) == exact


async def test_two_thousand_inputs_by_the_sdk(embedding: Embedding) -> None:
    http: Any = embedding.stage.client  # httpx's: the SDK declares httpx2's, and takes both
    async with AsyncOpenAI(api_key=KEY, base_url="http://gateway/v1", http_client=http) as client:
        answer = await client.embeddings.create(model=EMBEDDER, input=[f"text {n}" for n in range(2048)])
        few = await client.embeddings.create(model=EMBEDDER, input="x", dimensions=2, encoding_format="float")
    assert [each.index for each in answer.data] == list(range(2048))
    assert [each.embedding[0] for each in answer.data] == list(range(2048))
    assert answer.usage.total_tokens == 3 * 2048
    assert few.data[0].embedding == [0.0, 0.125]
    assert len(embedding.worker.jobs) == 2


@pytest.mark.parametrize(
    ("param", "value"),
    [
        *(("input", bad) for bad in ("", [], [""], ["a", ""], [[]], [[1], []], None, 5, {}, [None], [1.5], [True])),
        *(("input", bad) for bad in (["a", 1], ["a", [1]], [[1], 2], [[1.0]], [-1], [[2**31]], [["a"]], [[[1]]])),
        ("input", ["a"] * 2049),
        ("input", ["a"] * 100_000),
        ("input", "a " * 500_000),
        ("input", ["short", "a" * 1_000_000]),
        ("input", list(range(1, 130))),
        *(("dimensions", bad) for bad in (0, -1, 10**9, 1e9, DIMENSIONS + 1, "4", True)),
        *(("encoding_format", bad) for bad in ("pickle", "FLOAT", 1, ["float"])),
        *(("user", bad) for bad in (1, "x" * 513)),
        *(("model", bad) for bad in ("", 5, None, MODEL)),
    ],
)
async def test_refusals(embedding: Embedding, param: str, value: Any) -> None:
    """docs/design/hostile-input.md#H63 and the like: 400, naming the field, without a worker."""
    response = await embedding(**{"value": "hi", param: value} if param != "input" else {"value": value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"].partition("[")[0] == param
    assert len(response.content) < 1000
    assert embedding.worker.jobs == embedding.stage.worker.jobs == []


async def test_too_long_has_its_own_code(embedding: Embedding) -> None:
    error = (await embedding("a " * 500_000)).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert (await embedding([1] * 128)).status_code == 200


async def test_a_missing_field_is_named(embedding: Embedding) -> None:
    for body in ({"model": EMBEDDER}, {"input": "x"}):
        response = await embedding.stage.client.post("/v1/embeddings", json=body)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "missing_required_parameter"


async def test_each_model_refuses_the_other_task(embedding: Embedding) -> None:
    stage = embedding.stage
    chat = {"model": EMBEDDER, "messages": [{"role": "user", "content": "hi"}]}
    for path, body, instead in (
        ("/v1/chat/completions", chat, "/v1/embeddings"),
        ("/v1/completions", {"model": EMBEDDER, "prompt": "hi"}, "/v1/embeddings"),
        ("/v1/embeddings", {"model": MODEL, "input": "hi"}, "/v1/chat/completions"),
    ):
        response = await stage.client.post(path, json=body)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "model"
        assert instead in response.json()["error"]["message"]
    assert stage.worker.jobs == embedding.worker.jobs == []
    assert (await embedding("hi", model="nobody")).status_code == 404


async def test_models_are_listed_with_their_task(embedding: Embedding) -> None:
    listed = (await embedding.stage.client.get("/v1/models")).json()["data"]
    assert {model["id"]: model["task"] for model in listed} == {EMBEDDER: "embed", MODEL: "generate"}


async def test_a_workers_refusal_reaches_the_client(embedding: Embedding) -> None:
    embedding.worker.script = fail(FailureCode.CONTEXT_LENGTH_EXCEEDED, "Too long.")
    response = await embedding("x")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


def answering(*replies: Any) -> Script:
    """A script that sends `replies`, each made from the job."""

    async def script(worker: ScriptedWorker, job: Job) -> None:
        worker.send(job, *(reply(job) for reply in replies))

    return script


def started(attempt: str) -> Any:
    return lambda job: Started(job_id=job.id, attempt_id=attempt, worker_id="worker-2", prompt_tokens=1)


def embedded(attempt: str, start: int, count: int = 1) -> Any:
    return lambda job: Embedded(
        job_id=job.id, attempt_id=attempt, start=start, vectors=[vector(start + n) for n in range(count)]
    )


def finished(attempt: str) -> Any:
    return lambda job: Finished(job_id=job.id, attempt_id=attempt, usage=Usage(prompt_tokens=1))


async def test_a_second_attempt_delivers_the_missing_vectors(embedding: Embedding) -> None:
    embedding.worker.script = answering(
        started("a"), embedded("a", 1), started("b"), embedded("a", 0), embedded("b", 0, 2), finished("b")
    )
    body = (await embedding(["x", "y"])).json()
    assert [each["embedding"][0] for each in body["data"]] == [0.0, 1.0]


@pytest.mark.parametrize("start", [1, 2])
async def test_vectors_that_are_missing_or_too_many_fail_the_request(embedding: Embedding, start: int) -> None:
    embedding.worker.script = answering(started("a"), embedded("a", start), finished("a"))
    response = await embedding(["x", "y"])
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "replies_lost"


async def test_a_client_that_leaves_cancels_the_job(embedding: Embedding) -> None:
    async def wait(worker: ScriptedWorker, job: Job) -> None:
        await worker.cancel_of(job.id).wait()

    embedding.worker.script = wait
    request = asyncio.create_task(embedding("x"))
    await embedding.worker.received.wait()
    request.cancel()
    (job,) = embedding.worker.jobs
    await asyncio.wait_for(embedding.worker.cancel_of(job.id).wait(), 5)
