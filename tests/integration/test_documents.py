"""Vector stores over RabbitMQ with a real embedding model: what is found, and what a deletion leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import bson
import openai
import pytest

from auth_billing.development_account import ORGANISATION
from auth_billing.keys.key_issuance import KeySpec, issue
from auth_billing.store.api_keys import MongoApiKeyStore
from inference_worker.__main__ import serve
from inference_worker.settings import WorkerSettings
from tests.chaos.installed import skip_unless_installed
from tests.chaos.stack import Size, Stack, running
from tests.documents.parsing.files import Text, docx, pdf

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.model, pytest.mark.timeout(400)]

EMBEDDER = "minilm"
SECRET = "qzxvogram"
"""A word that is nowhere but in the file that is deleted."""
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
        asked: dict[str, Any] = {
            "model": stack.model,
            "tools": [{"type": "file_search", "vector_store_ids": [store.id], "max_num_results": 3}],
            "tool_choice": {"type": "file_search"},
            "include": ["file_search_call.results"],
            "max_output_tokens": 8,
        }
        answered = await other.responses.create(input="ile wynosi kaucja za najem?", **asked)
        assert answered.output[0].results[0].filename == "umowa.txt"
        assert answered.output_text
        absent = await client.responses.create(input="Kto napisał Pana Tadeusza?", **asked)
        assert absent.output_text == "Odpowiedzi na to pytanie nie ma w Twoich dokumentach."
        async with client_of(stack, stack.gateways[0], await key_of_another_project(stack)) as stranger:
            with pytest.raises(openai.NotFoundError):
                await stranger.vector_stores.search(store.id, query="kaucja")
            with pytest.raises(openai.NotFoundError):
                await stranger.responses.create(input="kaucja", **asked)
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


async def test_a_deleted_file_is_gone_from_searches_store_indexes_and_blobs_within_a_minute(
    embedding_folder: Path,
) -> None:
    skip_unless_installed()
    async with (
        running(Size(gateways=2, workers=1)) as stack,
        with_embedder(stack, embedding_folder),
        client_of(stack, stack.gateways[0]) as client,
        client_of(stack, stack.gateways[1]) as other,
    ):
        store = (await client.vector_stores.create(name="shelf")).id
        text = "\n\n".join(f"The {SECRET} is kept in room {number}." for number in range(200))
        secret, kept = ("secret.txt", text.encode()), ("kept.md", KINDS[0][1])
        batch = await client.vector_stores.file_batches.upload_and_poll(store, files=[secret, kept])
        assert batch.file_counts.completed == 2
        for reader in (client, other):
            assert await best(reader, store, SECRET) == "secret.txt"
        assert {each.split(":")[0] for each in await traces(stack)} == {"passage_blocks", "blobs", "search"}
        (file,) = [each.id async for each in client.files.list() if each.filename == "secret.txt"]
        await client.files.delete(file)
        for reader in (client, other):
            found = await reader.vector_stores.search(store, query=SECRET)
            assert [each.filename for each in found.data] == ["kept.md"]
            with pytest.raises(openai.NotFoundError):
                await reader.vector_stores.files.content(file, vector_store_id=store)
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                while await traces(stack):
                    await asyncio.sleep(0.5)
        assert await traces(stack) == []
        assert await stack.access.connection.durable("passage_blocks").count_documents({}) == 1
        async for record in stack.access.connection.durable("idempotency").find():
            assert record["answer"]["body"] is None, "an answer with vectors is kept"


async def traces(stack: Stack) -> list[str]:
    """Return where the secret's text is in the store, in the gateways' indexes or among the blobs."""
    secret, found = SECRET.encode(), []
    database = stack.access.connection.durable("jobs").raw.database
    for name in await database.list_collection_names():
        documents = await database[name].find().to_list(None)
        found += [f"{name}: {each['_id']}" for each in documents if secret in bson.encode(each)]
    for folder in ("blobs", "search"):
        files = [each for each in (stack.home / folder).rglob("*") if each.is_file()]
        found += [f"{folder}: {each.name}" for each in files if secret in each.read_bytes()]
    return found
