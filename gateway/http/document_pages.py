"""Writes pages of project documents as OpenAI's lists, for the routes of stored objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import Response

from gateway.answers.event_frames import compact
from gateway.http.pagination import unknown_after
from stored_objects.errors import DocumentNotFound
from stored_objects.project_documents.project_documents import ProjectDocuments
from stored_objects.project_documents.records import DocumentQuery, ProjectDocument, ProjectOwner

INLINE_BYTES = 64 * 1024
"""Longer pages are written in a thread, so that they do not block the event loop."""


def object_response(content: dict[str, Any]) -> Response:
    """Create an HTTP response of status 200 whose body is a stored object, JSON values."""
    return Response(compact(content), media_type="application/json")


async def list_response(
    documents: ProjectDocuments,
    owner: ProjectOwner,
    query: DocumentQuery,
    after: str | None,
    content: Callable[[ProjectDocument], dict[str, Any]],
) -> Response:
    """Create the response with the page of the owner's documents after the one with the id `after`.

    `content` returns the object of a document as JSON values.

    Raises:
        InvalidRequest: The owner has no document `after`.
    """
    try:
        page = await documents.page(owner, query, after)
    except DocumentNotFound as error:
        raise unknown_after() from error
    found = page.documents

    def respond() -> Response:
        return object_response(
            {
                "object": "list",
                "data": [content(each) for each in found],
                "first_id": found[0].id if found else None,
                "last_id": found[-1].id if found else None,
                "has_more": page.has_more,
            }
        )

    is_long = sum(len(each.content) for each in found) > INLINE_BYTES
    return await asyncio.to_thread(respond) if is_long else respond()
