"""A gateway with an embedding model that knows a few topics, and helpers that fill vector stores there."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from router.bus import Bus
from router.messages import Embedded, EmbeddingPrompt, Finished, Job, Started, Usage
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import Script, ScriptedWorker, count
from tests.gateway.conftest import Stage, eventually, stage

EMBEDDER = "org/embedder"
TOPICS = (("dog", "pies", "kennel"), ("cat", "kot", "purr"), ("money", "rent", "czynsz"))
"""Words by topic: a text has a number of its vector for each."""
DOGS = b"# Dogs\n\nA dog lives in a kennel. Each dog barks at night.\n"
CATS = b"# Cats\n\nA cat sleeps all day and purrs. Kot mruczy.\n"
RENT = b"# Lease\n\nThe rent is 700 euros, and the money is due each month.\n"
TOKENS_OF_A_TEXT = 3


def topic_vector(text: str) -> bytes:
    lower = text.lower()
    numbers = [float(sum(lower.count(word) for word in words)) for words in TOPICS]
    return struct.pack("<4f", *numbers, 0.1)


async def embed_topics(worker: ScriptedWorker, job: Job) -> None:
    """Vectors by the topics of the inputs, three tokens to a text."""
    assert isinstance(job.prompt, EmbeddingPrompt)
    attempt = uuid.uuid4().hex
    texts = [str(each) for each in job.prompt.inputs]
    total = TOKENS_OF_A_TEXT * len(texts)
    worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=total))
    vectors = [topic_vector(each) for each in texts]
    worker.send(job, Embedded(job_id=job.id, attempt_id=attempt, start=0, vectors=vectors, tokens=total))
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=Usage(prompt_tokens=total)))


@dataclass
class Library:
    """A stage beside an embedding worker."""

    stage: Stage
    worker: ScriptedWorker

    @property
    def client(self) -> httpx.AsyncClient:
        return self.stage.client

    async def upload(self, content: bytes, name: str = "a.md") -> str:
        form = {"purpose": "assistants"}
        response = await self.client.post("/v1/files", data=form, files={"file": (name, content)})
        assert response.status_code == 200, response.text
        id: str = response.json()["id"]
        return id

    async def post(self, path: str, body: dict[str, Any] | None = None, *, status: int = 200) -> dict[str, Any]:
        response = await self.client.post(f"/v1/vector_stores{path}", json=body or {})
        assert response.status_code == status, response.text
        found: dict[str, Any] = response.json()
        return found

    async def get(self, path: str, *, status: int = 200) -> dict[str, Any]:
        response = await self.client.get(f"/v1/vector_stores{path}")
        assert response.status_code == status, response.text
        found: dict[str, Any] = response.json()
        return found

    async def create(self, *contents: bytes, **fields: Any) -> dict[str, Any]:
        """Create a vector store with these files, and wait until they are imported."""
        ids = [await self.upload(each, f"{number}.md") for number, each in enumerate(contents)]
        return await self.imported((await self.post("", {"file_ids": ids, **fields}))["id"])

    async def imported(self, id: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while (found := await self.get(f"/{id}"))["status"] == "in_progress":
                await asyncio.sleep(0.02)
        return found

    async def search(self, id: str, query: Any, **fields: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.post(f"/{id}/search", {"query": query, **fields}))["data"]
        return found


@asynccontextmanager
async def embedder(set_up: Stage, script: Script = embed_topics) -> AsyncIterator[ScriptedWorker]:
    """An embedding worker beside that of a stage."""
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(set_up.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, EMBEDDER, script, "worker-2", dimensions=4)
        yield await stack.enter_async_context(worker.running())


@asynccontextmanager
async def library(script: Script = count, *, embeds: Script = embed_topics, **settings: Any) -> AsyncIterator[Library]:
    async with stage(script, **settings) as set_up, embedder(set_up, embeds) as worker:
        await eventually(lambda: set_up.gateway.models.find(EMBEDDER) is not None)
        yield Library(set_up, worker)
