"""Embeddings from end to end: OpenAI's client, gateway, queue, worker, encoder process, and back."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from auth_billing.idempotency import IdempotencyKeys
from gateway.app import GatewayServices, create_app
from gateway.settings import GatewaySettings
from inference_worker.__main__ import serve
from inference_worker.settings import WorkerSettings
from router.bus import Bus
from router.messages import Outcome, UsageRecord
from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from router.transport.rabbitmq import RabbitMQTransport
from tests.fakes.accounts import DictIdempotencyStore
from tests.fakes.administration import DictOrganisation
from tests.fakes.billing import FakeBilling
from tests.fakes.rate_buckets import rate_limiter
from tests.fakes.stored_objects import object_services
from tests.gateway.conftest import KEY, FakeAccounts, eventually

MODEL = "minilm"

pytestmark = pytest.mark.model

MakeTransport = Callable[[str], Transport]


MEMORY = pytest.param("memory", 2048, id="memory")
RABBITMQ = pytest.param("rabbitmq", 300, id="rabbitmq", marks=pytest.mark.rabbitmq)


@pytest.fixture
def make_transport(request: pytest.FixtureRequest) -> MakeTransport:
    if request.param == "rabbitmq":
        url = request.getfixturevalue("rabbitmq_url")
        return lambda name: RabbitMQTransport(url, name=name)
    broker = MemoryBroker()
    return lambda name: MemoryTransport(broker, name)


@asynccontextmanager
async def platform(
    make_transport: MakeTransport, folder: Path, records: list[UsageRecord]
) -> AsyncIterator[AsyncOpenAI]:
    """A gateway and a worker; `records` are filled with what the worker says was used."""
    async with AsyncExitStack() as stack:
        bus = Bus(make_transport("gateway-e"))
        await bus.start()
        stack.push_async_callback(bus.close)
        keys, limits = IdempotencyKeys(DictIdempotencyStore()), rate_limiter()
        services = GatewayServices(
            bus, FakeAccounts(), FakeBilling(), keys, DictOrganisation().administration, limits, *object_services()
        )
        app = create_app(services, GatewaySettings(gateway_id="gateway-e"))
        await stack.enter_async_context(app.router.lifespan_context(app))
        usage = await bus.settlements(prefetch=100)

        async def settle() -> None:
            async for envelope in usage:
                if isinstance(envelope.message, UsageRecord):
                    records.append(envelope.message)
                envelope.delivery.ack()

        settling = asyncio.create_task(settle())
        stack.callback(settling.cancel)
        stop = asyncio.Event()
        settings = WorkerSettings(model=str(folder), served_model_name=MODEL, id="worker-e", threads=1)
        working = asyncio.create_task(serve(settings, stop, transports=[make_transport("worker-e")]))
        try:
            async with asyncio.timeout(120):
                while app.state.gateway.models.find(MODEL) is None:
                    await asyncio.wait({working}, timeout=0.05)
                    assert not working.done(), working.result()
            http: Any = httpx.AsyncClient(transport=httpx.ASGITransport(app))
            async with AsyncOpenAI(
                api_key=KEY, base_url="http://gateway/v1", http_client=http, max_retries=0
            ) as client:
                yield client
        finally:
            stop.set()
            await working


@pytest.mark.parametrize(("make_transport", "count"), [MEMORY, RABBITMQ], indirect=["make_transport"])
async def test_embeddings_end_to_end(make_transport: MakeTransport, count: int, embedding_folder: Path) -> None:
    records: list[UsageRecord] = []
    async with platform(make_transport, embedding_folder, records) as client:
        inputs = [f"{number} bottles" + " more" * (number % 4) for number in range(count)]
        many = await client.embeddings.create(model=MODEL, input=inputs)
        assert [each.index for each in many.data] == list(range(count))
        assert {len(each.embedding) for each in many.data} == {384}
        some = [0, 1, 77, count - 1]
        alone = await asyncio.gather(*(client.embeddings.create(model=MODEL, input=inputs[each]) for each in some))
        for index, one in zip(some, alone, strict=True):
            assert one.data[0].embedding == pytest.approx(many.data[index].embedding, abs=1e-5)

        texts = ["water", "a mill wheel", "Wasser 水"]
        plain = await client.embeddings.create(model=MODEL, input=texts, encoding_format="float")
        coded = await client.embeddings.create(model=MODEL, input=texts, encoding_format="base64")
        for one_plain, other in zip(plain.data, coded.data, strict=True):
            exact = base64.b64decode(str(other.embedding))
            assert struct.pack("<384f", *one_plain.embedding) == exact
        short = await client.embeddings.create(model=MODEL, input="water", dimensions=100)
        assert len(short.data[0].embedding) == 100
        assert sum(number**2 for number in short.data[0].embedding) == pytest.approx(1, abs=1e-5)

        for bad, param in (("word " * 300, "input"), ([[99_999]], "input")):
            with pytest.raises(openai.BadRequestError) as refused:
                await client.embeddings.create(model=MODEL, input=bad)
            assert refused.value.param == param
        listed = [model async for model in client.models.list()]
        assert [(model.id, model.to_dict()["task"]) for model in listed] == [(MODEL, "embed")]
        with pytest.raises(openai.BadRequestError, match="/v1/embeddings"):
            await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
        answers = [many, *alone, plain, coded, short]
        await eventually(lambda: len(records) == len(answers) + 2)
    finished = sorted(record.usage.prompt_tokens for record in records if record.outcome is Outcome.FINISHED)
    assert finished == sorted(answer.usage.total_tokens for answer in answers)
    assert [record.usage.prompt_tokens for record in records if record.outcome is Outcome.FAILED] == [0, 0]


@pytest.mark.parametrize(
    "make_transport",
    ["memory", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)],
    indirect=True,
)
async def test_a_busy_worker_tokenises_beside_its_batches(
    make_transport: MakeTransport, embedding_folder: Path
) -> None:
    records: list[UsageRecord] = []
    async with platform(make_transport, embedding_folder, records) as client:
        body = {"model": MODEL, "prompt": "water mill", "return_token_strs": True}
        embedding = asyncio.create_task(client.embeddings.create(model=MODEL, input=["word " * 200] * 40))
        await asyncio.sleep(0)
        tokens = (await client.post("/tokenize", body=body, cast_to=httpx.Response)).json()
        assert tokens["token_strs"] == ["[CLS]", "water", "mill", "[SEP]"]
        assert (tokens["count"], tokens["max_model_len"]) == (4, 256)
        back = await client.post(
            "/detokenize", body={"model": MODEL, "tokens": tokens["tokens"]}, cast_to=httpx.Response
        )
        assert back.json() == {"prompt": "[CLS] water mill [SEP]"}
        assert not embedding.done()
        embedded = await embedding
        inputs: list[Any] = [tokens["tokens"], "water mill"]
        of_ids, of_text = [await client.embeddings.create(model=MODEL, input=each) for each in inputs]
        assert of_ids.data[0].embedding == pytest.approx(of_text.data[0].embedding, abs=1e-5)
        await eventually(lambda: len(records) == 5)
    used = [record.usage.prompt_tokens for record in records if record.job.startswith("tok-")]
    assert used == [0, 0]
    assert embedded.usage.prompt_tokens > 0
