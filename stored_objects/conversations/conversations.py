"""Service that keeps the conversations of projects: a project document each, whose items are documents of their own.

A conversation and its items are kept for the project's days since the last item was added.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from stored_objects.errors import ContextTooLarge, DocumentNotFound
from stored_objects.project_documents.project_documents import NewDocument, ProjectDocuments
from stored_objects.project_documents.records import DocumentQuery, ProjectDocument, ProjectOwner

MAX_ITEMS = 4096
"""Most items of a context."""
MAX_CONTEXT_BYTES = 16 * 2**20
"""Most bytes of the items of a context."""
BATCH = 128
"""Items of a context that are read at once."""

INLINE_BYTES = 64 * 1024
"""More bytes of items are parsed in a thread, so that they do not block the event loop."""

Item = dict[str, Any]
"""An input or output item in the form of the Responses API, as JSON values with an id."""


class Conversations:
    """Keeps, finds and erases conversations. Methods raise `StoreUnavailable` if the store does not answer."""

    def __init__(self, documents: ProjectDocuments) -> None:
        self.documents = documents

    async def create(self, owner: ProjectOwner, metadata: Mapping[str, str], items: Sequence[Item]) -> ProjectDocument:
        """Store a new conversation of `owner` with its first items by one write, and return its document.

        Raises:
            StorageQuotaExceeded: the project or its organisation would store too much.
        """
        id = f"conv_{uuid.uuid4().hex}"
        conversation = NewDocument(id, b"{}", metadata)
        *_, stored = await self.documents.add(owner, *_documents(id, items), conversation)
        return stored

    async def find(self, owner: ProjectOwner, id: str) -> ProjectDocument:
        """Return the document of one conversation of `owner`.

        Raises:
            DocumentNotFound: the owner has no conversation with this id.
        """
        found = await self.documents.find(owner, id)
        if found.parent:
            raise DocumentNotFound(id)
        return found

    async def append(self, conversation: ProjectDocument, items: Sequence[Item]) -> None:
        """Store items, at least one, at the end of a conversation, and keep all of it for the project's days again.

        Raises:
            DocumentNotFound: the conversation was deleted meanwhile; the items are erased too.
            StorageQuotaExceeded: the project or its organisation would store too much; nothing is stored.
        """
        await self.documents.add(conversation.owner, *_documents(conversation.id, items))
        await self.documents.renew(conversation)

    async def items(self, conversation: ProjectDocument) -> list[Item]:
        """Return all items of a conversation, the oldest first.

        Raises:
            ContextTooLarge: they are too many, or have too many bytes.
        """
        items: list[Item] = []
        size, after = 0, None
        while True:
            query = DocumentQuery(limit=BATCH, parent=conversation.id)
            page = await self.documents.page(conversation.owner, query, after)
            size += sum(len(each.content) for each in page.documents)
            if size > MAX_CONTEXT_BYTES:
                raise ContextTooLarge(f"its items have more than {MAX_CONTEXT_BYTES} bytes")
            items += await _read(page.documents)
            if len(items) > MAX_ITEMS:
                raise ContextTooLarge(f"it has more than {MAX_ITEMS} items")
            if not page.has_more:
                return items
            after = page.documents[-1].id

    async def find_item(self, owner: ProjectOwner, id: str, item_id: str) -> Item:
        """Return one item of the conversation `id` of `owner`.

        Raises:
            DocumentNotFound: there is no such conversation, or it has no such item.
        """
        found = await self.documents.find(owner, item_id)
        if found.parent != id:
            raise DocumentNotFound(item_id)
        return item_of(found)

    async def delete_item(self, owner: ProjectOwner, id: str, item_id: str) -> None:
        """Erase one item of the conversation `id` of `owner`.

        Raises:
            DocumentNotFound: there is no such conversation, or it has no such item.
        """
        await self.find_item(owner, id, item_id)
        await self.documents.delete(owner, item_id)


async def _read(documents: Sequence[ProjectDocument]) -> list[Item]:
    def read() -> list[Item]:
        return [item_of(each) for each in documents]

    is_long = sum(len(each.content) for each in documents) > INLINE_BYTES
    return await asyncio.to_thread(read) if is_long else read()


def item_of(document: ProjectDocument) -> Item:
    """Return the item that a document of a conversation has."""
    item: Item = json.loads(document.content)
    return item


def _documents(conversation: str, items: Sequence[Item]) -> list[NewDocument]:
    contents = (json.dumps(each, separators=(",", ":")).encode() for each in items)
    return [
        NewDocument(str(item["id"]), content, parent=conversation)
        for item, content in zip(items, contents, strict=True)
    ]
