"""Service that keeps, finds and deletes the responses of projects, and collects the items of a context from them.

A stored response is a project document with the items that its request appended to a context: its input and its output.
A longer context is the documents that it names, in order.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from stored_objects.errors import ContextTooLarge, DocumentNotFound
from stored_objects.project_documents.project_documents import NewDocument, ProjectDocuments
from stored_objects.project_documents.records import ProjectDocument, ProjectOwner

MAX_EARLIER = 512
"""Most responses of a context."""
MAX_CONTEXT_BYTES = 16 * 2**20
"""Most bytes of the documents of a context."""
BATCH = 16
"""Documents of a context that are read at once."""
INLINE_BYTES = 64 * 1024
"""Longer contents are compressed and decompressed in a thread, so that they do not block the event loop."""
_ID = re.compile(r"resp_([0-9a-f]{32})")
_ITEM_ID = re.compile(r"[a-z]{1,8}_([0-9a-f]{32})([0-9a-f]{4,8})")

Item = dict[str, Any]
"""An input or output item in the form of the Responses API, as JSON values with an id."""


def item_id(prefix: str, response_id: str, number: int) -> str:
    """Return the id of item `number` of a response (its input counts first); the response's id follows from it."""
    return f"{prefix}_{response_id.partition('_')[2]}{number:04x}"


@dataclass(frozen=True)
class StoredResponse:
    """A response, and the items of its request."""

    response: dict[str, Any]
    """The response object of the API, as JSON values."""
    items: list[Item]
    """Input items of its own request, with ids, in order."""
    earlier: list[str] = field(default_factory=list)
    """Ids of the responses whose items come before these in the context, the oldest first."""
    size: int = field(default=0, compare=False)
    """Bytes of the stored JSON; 0 of a response that is not stored yet."""

    @property
    def id(self) -> str:
        """Id of the response."""
        return str(self.response["id"])

    @property
    def all_items(self) -> list[Item]:
        """Input and output items of the response, in order."""
        return [*self.items, *self.response["output"]]


class StoredResponses:
    """Keeps, finds and deletes responses of owners. Methods raise `StoreUnavailable` if the store does not answer."""

    def __init__(self, documents: ProjectDocuments) -> None:
        self.documents = documents

    async def keep(self, owner: ProjectOwner, stored: StoredResponse) -> None:
        """Store a response of `owner` by one write.

        Raises:
            RecordRefused: the response is too large for the store.
            StorageQuotaExceeded: the project or its organisation would store too much.
        """
        await self.documents.add(owner, await new_document(stored))

    async def find(self, owner: ProjectOwner, id: str) -> StoredResponse:
        """Return one response of `owner`, by id.

        Raises:
            DocumentNotFound: the owner has no such response, or it has expired.
        """
        return await read_document(await self.documents.find(owner, _checked(id)))

    async def context(self, owner: ProjectOwner, id: str) -> list[StoredResponse]:
        """Return the responses whose items are the context of a request that continues the response `id`.

        The oldest is first, that response last.

        Raises:
            DocumentNotFound: the owner has no such response, or an earlier one of its context was deleted.
            ContextTooLarge: the context has too many responses or bytes.
        """
        last = await self.find(owner, id)
        if len(last.earlier) >= MAX_EARLIER:
            raise ContextTooLarge(f"it has more than {MAX_EARLIER} responses")
        found = {each.id: each for each in await self._find_many(owner, last.earlier)}
        if missing := next((each for each in last.earlier if each not in found), None):
            raise DocumentNotFound(missing)
        return [*(found[each] for each in last.earlier), last]

    async def items(self, owner: ProjectOwner, ids: Collection[str]) -> dict[str, Item]:
        """Return those input and output items of responses of `owner` that have these `ids`, by id.

        Raises:
            ContextTooLarge: the responses of the items have too many bytes.
        """
        matches = [match for each in ids if (match := _ITEM_ID.fullmatch(each)) is not None]
        responses = list(dict.fromkeys(f"resp_{match[1]}" for match in matches))
        found = await self._find_many(owner, responses)
        items = {item["id"]: item for each in found for item in each.all_items}
        return {each: items[each] for each in ids if each in items}

    async def delete(self, owner: ProjectOwner, id: str) -> None:
        """Delete one response of `owner` with all its items.

        Raises:
            DocumentNotFound: the owner has no such response.
        """
        await self.documents.delete(owner, _checked(id))

    async def _find_many(self, owner: ProjectOwner, ids: Sequence[str]) -> list[StoredResponse]:
        found: list[StoredResponse] = []
        size = 0
        for start in range(0, len(ids), BATCH):
            for document in await self.documents.find_many(owner, ids[start : start + BATCH]):
                read = await read_document(document)
                size += read.size
                if size > MAX_CONTEXT_BYTES:
                    raise ContextTooLarge(f"its responses have more than {MAX_CONTEXT_BYTES} bytes")
                found.append(read)
        return found


async def new_document(stored: StoredResponse) -> NewDocument:
    """Return a response as a new document, compressed."""
    values = {"response": stored.response, "items": stored.items, "earlier": stored.earlier}
    content = json.dumps(values, separators=(",", ":")).encode()
    content = await _in_thread_if(len(content) > INLINE_BYTES, zlib.compress, content, 1)
    return NewDocument(stored.id, content, model=str(stored.response.get("model", "")))


async def read_document(document: ProjectDocument) -> StoredResponse:
    """Return the response that a document has."""
    content = await _in_thread_if(len(document.content) > INLINE_BYTES // 8, zlib.decompress, document.content)
    return StoredResponse(**json.loads(content), size=len(content))


def _checked(id: str) -> str:
    if not _ID.fullmatch(id):
        raise DocumentNotFound(id)
    return id


async def _in_thread_if(long: bool, call: Any, *arguments: Any) -> bytes:
    result: bytes = await asyncio.to_thread(call, *arguments) if long else call(*arguments)
    return result
