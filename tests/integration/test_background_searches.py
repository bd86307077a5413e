"""Background responses with `file_search` over RabbitMQ: their gateway is killed with `kill -9` in each phase.

Real processes and the real lease of ten seconds; the models that call for the search and embed are scripted.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import openai
import pytest

from auth_billing.audit.auditor import Auditor
from auth_billing.development_account import ORGANISATION
from auth_billing.keys.key_issuance import KeySpec, issue
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.audit import MongoAuditStore
from router.messages import Finished, Job, KeySet, ToolCallDelta
from router.rabbitmq_bus import rabbitmq_bus
from tests.chaos import books
from tests.chaos.installed import skip_unless_installed
from tests.chaos.stack import Size, Stack, running
from tests.chaos.test_chat import kill
from tests.contract.examples import msgspec_replace
from tests.fakes.scripted_worker import Script, ScriptedWorker, prompt_text, usage
from tests.gateway.vector_stores.library import EMBEDDER, embed_topics
from tests.integration.test_documents import client_of

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.timeout(600)]

PHASES = ("call", "embedding", "answer", "revoked")
"""Models, by the phase in which each pauses for ever; the key of the last one's response is revoked meanwhile."""
KENNEL = b"# Dogs\n\nA dog lives in a kennel. Each dog barks at night.\n"
ANSWER = ["Each ", "dog ", "barks ", "[1]", "."]


class Phase:
    """The script of a model that calls for a search and answers, and pauses once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reached = asyncio.Event()

    async def __call__(self, worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        searched = "kennel" in prompt_text(job)
        texts = ANSWER if searched else ["I ", "look", "."]
        for position in range(job.delivered_positions(0), len(texts)):
            if position == 2 and self.name in (("answer",) if searched else ("call", "revoked")):
                await self.pause()
            last = position == len(texts) - 1
            fields: dict[str, Any] = {"finish_reason": "stop"} if last else {}
            if last and not searched:
                arguments = f'{{"query": "dog {self.name}"}}'
                call = ToolCallDelta(index=0, id="call_a", name="file_search", arguments=arguments)
                fields = {"finish_reason": "tool_calls", "tool_calls": [call]}
            worker.send_token(job, attempt, position, texts[position], **fields)
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(texts))))

    async def pause(self) -> None:
        """Pause for ever, the first time."""
        if not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()


@asynccontextmanager
async def working(stack: Stack, model: str, script: Script, **reported: Any) -> AsyncIterator[ScriptedWorker]:
    """A scripted worker in this process, until the block ends."""
    processes = stack.processes
    bus = rabbitmq_bus(processes.broker.amqp_url("worker"), f"{model}-1", processes.control_secret)
    await bus.start(declares_platform=False)
    worker = ScriptedWorker(bus, model, script, f"{model}-1".replace("/", "-"), **reported)

    async def beat() -> None:
        while True:
            bus.send_status(msgspec_replace(worker.status, max_model_len=4096, at=time.time()))
            await asyncio.sleep(1.0)

    beating = asyncio.create_task(beat())
    try:
        async with worker.running():
            yield worker
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await bus.close()


async def shelf(stack: Stack) -> str:
    """Create a vector store with one file, and wait until both gateways know all models."""
    async with AsyncExitStack() as opened, asyncio.timeout(120):
        clients = [await opened.enter_async_context(client_of(stack, name)) for name in stack.gateways]
        for client in clients:
            while not {*PHASES, EMBEDDER} <= {each.id for each in (await client.models.list()).data}:
                await asyncio.sleep(0.1)
        store = await clients[0].vector_stores.create(name="shelf")
        files = [("dogs.md", KENNEL)]
        batch = await clients[0].vector_stores.file_batches.upload_and_poll(store.id, files=files, poll_interval_ms=200)
        assert batch.file_counts.completed == 1
        return store.id


async def test_another_gateway_goes_on_with_a_search_in_each_phase_and_bills_it_once() -> None:
    skip_unless_installed()
    phases = {name: Phase(name) for name in PHASES}

    async def embed(worker: ScriptedWorker, job: Job) -> None:
        if "dog embedding" in str(job.prompt):
            await phases["embedding"].pause()
        await embed_topics(worker, job)

    async with running(Size(gateways=2, workers=1)) as stack, AsyncExitStack() as opened:
        for name, script in phases.items():
            await opened.enter_async_context(working(stack, name, script))
        await opened.enter_async_context(working(stack, EMBEDDER, embed, dimensions=4))
        store = await shelf(stack)
        keys = MongoApiKeyStore(stack.access.connection)
        principal = await stack.access.authenticator().authenticate(stack.key)
        of = {"organisation": ORGANISATION, "project": principal.project, "user": ""}
        other_key = (await issue(keys, stack.access.pepper, **of, spec=KeySpec("other"), now=time.time())).key
        first = await opened.enter_async_context(client_of(stack, "gateway-1"))
        second = await opened.enter_async_context(client_of(stack, "gateway-2"))
        revoked = await opened.enter_async_context(client_of(stack, "gateway-1", other_key.text))
        ids = {}
        for name in PHASES:
            asked: dict[str, Any] = {
                "model": name,
                "input": "How is it?",
                "tools": [{"type": "file_search", "vector_store_ids": [store]}],
                "max_output_tokens": 50,
                "background": True,
            }
            ids[name] = (await (revoked if name == "revoked" else first).responses.create(**asked)).id
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.reached.wait() for each in phases.values()))
            while 0 in [await logged(stack, each) for each in ids.values()]:
                await asyncio.sleep(0.1)
        kill(stack, "gateway-1")
        await stack.supervisor["gateway-1"].stop()  # and it is not restarted
        await keys.revoke(KeySet(key=other_key.key_id), time.time())

        for name, id in ids.items():
            events: list[Any] = [each async for each in await second.responses.retrieve(id, stream=True)]
            assert [each.sequence_number for each in events] == list(range(len(events))), name
            ended = events[-1].response
            kinds = [each.type for each in ended.output]
            if name == "revoked":
                assert (ended.status, kinds) == ("failed", ["message", "file_search_call"])
                continue
            assert (ended.status, kinds) == ("completed", ["message", "file_search_call", "message"]), name
            assert ended.output_text == "I look." + "".join(ANSWER)
            assert ended.output[1].queries == [f"dog {name}"]
            assert ended.output[2].content[0].annotations[0].filename == "dogs.md"
        await assert_billed_once(stack, second, ids)


async def logged(stack: Stack, id: str) -> int:
    """Number of groups in the log of a response."""
    groups = stack.access.connection.durable("responses").count_documents({"parent": id})
    return int(await groups)


async def assert_billed_once(stack: Stack, client: openai.AsyncOpenAI, ids: dict[str, str]) -> None:
    """Each response has one job that costs something, its last one or the only one, with the usage of all."""
    connection = stack.access.connection
    async with asyncio.timeout(180):
        while not await books.at_rest(connection):
            await asyncio.sleep(0.5)
    jobs = [each async for each in connection.durable("jobs").find()]
    embedded = 0
    for name, id in ids.items():
        own = [job["final"] for job in jobs if job["idempotency"] == id and job["model"] == name]
        queries = [job["final"] for job in jobs if job["idempotency"] == id and job["model"] == EMBEDDER]
        parts = [part for final in own for part in final.get("parts", ())]
        used = (await client.responses.retrieve(id)).usage
        tokens = sum(final["completion_tokens"] for final in own)
        tokens += sum(part["completion_tokens"] for part in parts if part["model"] == name)
        embedded += sum(final["prompt_tokens"] for final in queries)
        embedded += sum(part["prompt_tokens"] for part in parts if part["model"] == EMBEDDER)
        if name == "revoked":
            assert tokens == 3
        else:
            assert used is not None
            assert (tokens, tokens) == (used.output_tokens, 8), name
    assert embedded == 3 * (len(PHASES) - 1)
    assert not (await Auditor(MongoAuditStore(connection), pause=0.5).audit()).differences
