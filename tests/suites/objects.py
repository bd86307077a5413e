"""Objects of a project for the requests of a suite, created through the public API of the gateway."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import httpx

from tests.gateway.conftest import MODEL

EMBEDDER, PAINTER = "org/embedder", "org/painter"
METADATA = {"foo": "string"}
"""Metadata that the suites filter by."""
WAIT = "Wait."
"""Input of requests that run until they are cancelled, so that their batch can be."""
EXAMPLE = b"Example data"


class Objects:
    """Creates an object for each call; fails if the gateway refuses one."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def _post(self, path: str, **arguments: Any) -> dict[str, Any]:
        answer = await self._client.post(path, **arguments)
        assert answer.is_success, f"{path}: {answer.text}"
        created: dict[str, Any] = answer.json()
        return created

    async def response(self, **fields: Any) -> str:
        """Create a response to two items; return its id."""
        items = [{"role": "user", "content": text} for text in ("Hello.", "Count.")]
        return str((await self._post("/v1/responses", json={"model": MODEL, "input": items, **fields}))["id"])

    async def input_item(self, response: str) -> str:
        """Return the id of a response's first input item."""
        answer = await self._client.get(f"/v1/responses/{response}/input_items", params={"order": "asc"})
        return str(answer.json()["data"][0]["id"])

    async def conversation(self) -> tuple[str, str]:
        """Create a conversation of two items; return its id and that of its first item."""
        items = [{"type": "message", "role": "user", "content": text} for text in ("Hello.", "Count.")]
        id = str((await self._post("/v1/conversations", json={"items": items}))["id"])
        listed = await self._client.get(f"/v1/conversations/{id}/items", params={"order": "asc"})
        return id, str(listed.json()["data"][0]["id"])

    async def completion(self) -> tuple[str, str]:
        """Create a stored chat completion of two messages; return its id and that of its first message.

        Both are the assistant's: OpenAI's client types stored messages so, although its documentation shows others.
        """
        messages = [{"role": "assistant", "content": text} for text in ("Hello.", "Hm.")]
        body = {"model": MODEL, "messages": messages, "store": True, "metadata": METADATA}
        id = str((await self._post("/v1/chat/completions", json=body))["id"])
        listed = await self._client.get(f"/v1/chat/completions/{id}/messages")
        return id, str(listed.json()["data"][0]["id"])

    async def file(self, content: bytes = EXAMPLE, purpose: str = "assistants") -> str:
        """Create a file; return its id."""
        form = {"data": {"purpose": purpose}, "files": {"file": ("example.jsonl", content)}}
        return str((await self._post("/v1/files", **form))["id"])

    async def batch_input(self, endpoint: str = "/v1/responses") -> str:
        """Create the input file of a batch of one line; return its id."""
        body = {"model": MODEL, "input": WAIT}
        line = {"custom_id": "1", "method": "POST", "url": endpoint, "body": body}
        return await self.file(json.dumps(line).encode(), "batch")

    async def batch(self) -> str:
        """Create a batch; return its id."""
        body = {"input_file_id": await self.batch_input(), "endpoint": "/v1/responses", "completion_window": "24h"}
        return str((await self._post("/v1/batches", json=body))["id"])

    async def vector_store(self, *, imported: bool = False) -> tuple[str, list[str], str]:
        """Create a vector store, and a batch of two files of it; return their ids: of vector store, files and batch.

        `imported`: wait until the files are imported.
        """
        id = str((await self._post("/v1/vector_stores", json={}))["id"])
        files = [await self.file(uuid.uuid4().hex.encode()) for _ in range(2)]
        batch = str((await self._post(f"/v1/vector_stores/{id}/file_batches", json={"file_ids": files}))["id"])
        while imported and (await self._client.get(f"/v1/vector_stores/{id}")).json()["status"] != "completed":
            await asyncio.sleep(0.02)
        return id, files, batch

    async def upload(self, parts: int = 0) -> tuple[str, list[str]]:
        """Create an upload with as many parts; return its id and theirs."""
        body = {"filename": "example", "mime_type": "text/plain", "purpose": "assistants"}
        upload = await self._post("/v1/uploads", json={**body, "bytes": max(1, parts) * len(EXAMPLE)})
        path = f"/v1/uploads/{upload['id']}/parts"
        added = [await self._post(path, files={"data": ("part", EXAMPLE)}) for _ in range(parts)]
        return str(upload["id"]), [str(each["id"]) for each in added]
