"""Vector stores over RabbitMQ with a real embedding model, and imports while gateways are killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from auth_billing.audit.auditor import Auditor
from auth_billing.development_account import ORGANISATION
from auth_billing.keys.key_issuance import KeySpec, issue
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.audit import MongoAuditStore
from inference_worker.__main__ import serve
from inference_worker.settings import WorkerSettings
from stored_objects.vector_stores.passages import BLOCK_PASSAGES
from tests.chaos.installed import skip_unless_installed
from tests.chaos.stack import Size, Stack, running
from tests.documents.parsing.files import Text, docx, pdf

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.model, pytest.mark.timeout(400)]

EMBEDDER = "minilm"
FILES, NOTES = 24, 100
"""Number of files of the import whose gateways are killed, and of the paragraphs of each."""
LEASE = "Umowa najmu. Czynsz wynosi 700 euro i jest płatny do dziesiątego dnia każdego miesiąca. Kaucja to 1400 euro."
KINDS: list[tuple[str, bytes]] = [
    ("bikes.md", b"# Bicycles\n\n## Brakes\n\nDisc brakes stop a bicycle in the rain. Replace the pads every year.\n"),
    ("bread.html", b"<html><body><h1>Bread</h1><p>Knead the sourdough, and bake it at 240 degrees.</p></body></html>"),
    ("stars.csv", b"star,distance\nSirius,8.6 light years\nVega,25 light years\n"),
    ("umowa.txt", LEASE.encode()),
]


@asynccontextmanager
async def with_embedder(stack: Stack, folder: Path) -> AsyncIterator[None]:
    """A worker in this process that embeds, until the block ends; all gateways know its model in the block."""
    stop = asyncio.Event()
    settings = WorkerSettings(
        model=str(folder),
        served_model_name=EMBEDDER,
        id="embedder-1",
        threads=1,
        amqp_url=stack.processes.broker.amqp_url("worker"),
        control_secret=stack.processes.control_secret,
    )
    working = asyncio.create_task(serve(settings, stop))
    try:
        for gateway in stack.gateways:
            async with client_of(stack, gateway) as client, asyncio.timeout(120):
                while EMBEDDER not in [each.id for each in (await client.models.list()).data]:
                    await asyncio.wait({working}, timeout=0.1)
                    assert not working.done(), working.result()
        yield
    finally:
        stop.set()
        await working


def client_of(stack: Stack, gateway: str, key: str = "") -> openai.AsyncOpenAI:
    url = f"http://127.0.0.1:{stack.ports[gateway]}/v1"
    return openai.AsyncOpenAI(base_url=url, api_key=key or stack.key, max_retries=20, timeout=60)


async def imported(client: openai.AsyncOpenAI, store: str, *, at_least: int | None = None) -> Any:
    """Wait until the imports of a vector store have ended, or so many of them."""
    async with asyncio.timeout(200):
        while True:
            found = await client.vector_stores.retrieve(store)
            if found.status != "in_progress" or (at_least is not None and found.file_counts.completed >= at_least):
                return found
            await asyncio.sleep(0.1)


async def best(client: openai.AsyncOpenAI, store: str, query: str) -> str:
    found = await client.vector_stores.search(store, query=query)
    return found.data[0].filename


async def test_files_of_all_kinds_are_found_in_two_languages_and_by_their_project_only(embedding_folder: Path) -> None:
    skip_unless_installed()
    async with (
        running(Size(gateways=2, workers=1)) as stack,
        with_embedder(stack, embedding_folder),
        client_of(stack, stack.gateways[0]) as client,
        client_of(stack, stack.gateways[1]) as other,
    ):
        store = await client.vector_stores.create(name="shelf")
        cats = docx("<w:p><w:r><w:t>Cats purr when they are content, and sleep sixteen hours a day.</w:t></w:r></w:p>")
        report = pdf([Text("The factory made 512 turbines in March.", 72, 760)])
        kinds = [*KINDS, ("cats.docx", cats), ("report.pdf", report)]
        batch = await client.vector_stores.file_batches.upload_and_poll(store.id, files=kinds, poll_interval_ms=200)
        assert batch.file_counts.completed == len(kinds), await errors_of(client, store.id)
        for reader in (client, other):
            assert await best(reader, store.id, "How do I stop my bike on a wet road?") == "bikes.md"
            assert await best(reader, store.id, "temperature for baking a loaf") == "bread.html"
            assert await best(reader, store.id, "How far away is Vega?") == "stars.csv"
            assert await best(reader, store.id, "ile wynosi kaucja za najem?") == "umowa.txt"
            assert await best(reader, store.id, "czynszu") == "umowa.txt"  # another inflection
            assert await best(reader, store.id, "sleeping animals") == "cats.docx"
            assert await best(reader, store.id, "number of turbines produced") == "report.pdf"
        async with client_of(stack, stack.gateways[0], await key_of_another_project(stack)) as stranger:
            with pytest.raises(openai.NotFoundError):
                await stranger.vector_stores.search(store.id, query="kaucja")
            assert (await stranger.vector_stores.list()).data == []
        (lease,) = [each.id async for each in client.files.list() if each.filename == "umowa.txt"]
        await client.vector_stores.files.delete(lease, vector_store_id=store.id)
        for reader in (client, other):
            found = await reader.vector_stores.search(store.id, query="kaucja czynsz najem")
            assert "umowa.txt" not in [each.filename for each in found.data]
        await client.vector_stores.delete(store.id)
        with pytest.raises(openai.NotFoundError):
            await other.vector_stores.search(store.id, query="bread")
        async with asyncio.timeout(90):
            while await stack.access.connection.durable("passage_blocks").count_documents({}):
                await asyncio.sleep(0.5)


async def key_of_another_project(stack: Stack) -> str:
    keys, spec = MongoApiKeyStore(stack.access.connection), KeySpec("other")
    of = {"organisation": ORGANISATION, "project": "proj_other", "user": ""}
    issued = await issue(keys, stack.access.pepper, **of, spec=spec, now=time.time())
    return issued.key.text


async def errors_of(client: openai.AsyncOpenAI, store: str) -> list[Any]:
    return [each.last_error async for each in client.vector_stores.files.list(store, filter="failed")]


async def test_an_import_survives_killed_gateways_and_is_billed_once(embedding_folder: Path) -> None:
    skip_unless_installed()
    async with (
        running(Size(gateways=2, workers=1)) as stack,
        with_embedder(stack, embedding_folder),
        client_of(stack, stack.gateways[0]) as first,
        client_of(stack, stack.gateways[1]) as second,
    ):
        ids = [
            (await first.files.create(file=(f"{number}.md", notes(number)), purpose="assistants")).id
            for number in range(FILES)
        ]
        store = await first.vector_stores.create(name="notes")
        await first.vector_stores.file_batches.create(store.id, file_ids=ids)
        for completed, gateway, client in ((2, 0, second), (8, 1, first)):
            seen = await imported(client, store.id, at_least=completed)
            assert seen.status == "in_progress", "the import ended before its gateway was killed"
            process = stack.process(stack.gateways[gateway])
            assert process is not None
            process.kill()
        done = await imported(first, store.id)
        assert (done.file_counts.completed, done.file_counts.failed) == (FILES, 0), await errors_of(first, store.id)
        found = await second.vector_stores.search(store.id, query="item 17034", max_num_results=50)
        assert found.data[0].filename == "17.md"
        texts = [each.content[0].text for each in found.data]
        assert len(set(texts)) == len(texts), "a passage is there twice"
        blocks = 0
        for id in ids:
            passages = (await first.vector_stores.files.content(id, vector_store_id=store.id)).data
            assert sum(f"item {ids.index(id)}{note:03}" in str(passages) for note in range(NOTES)) == NOTES
            blocks += -(-len(passages) // BLOCK_PASSAGES)
        billed = await embedded_tokens(stack, blocks + 1)
        assert len(billed) == blocks + 1  # and the query
        assert (await Auditor(MongoAuditStore(stack.access.connection), pause=0.5).audit()).differences == []


def notes(number: int) -> bytes:
    text = "This item is in the room at the end of the corridor, on the second shelf from above, near the window. " * 3
    return "\n\n".join(f"About item {number}{note:03}. {text}" for note in range(NOTES)).encode()


async def embedded_tokens(stack: Stack, jobs: int) -> list[int]:
    """The tokens of the embedding jobs that were billed, once nothing is held and there are as many of them."""
    collection = stack.access.connection.durable("jobs")
    async with asyncio.timeout(120):
        while True:
            held = await collection.count_documents({"state": {"$ne": "settled"}})
            found = await collection.find({"final.prompt_tokens": {"$gt": 0}}).to_list(None)
            if not held and len(found) >= jobs:
                return [each["final"]["prompt_tokens"] for each in found]
            await asyncio.sleep(0.5)
