"""Routes of `/v1/conversations`: create, retrieve, update and delete conversations, and their items.

A conversation belongs to the project of the API key that created it; for other projects it does not exist.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from gateway.http.api_documentation import document_route
from gateway.http.dependencies import (
    AuthorisedConversation,
    AuthorisedConversationItems,
    AuthorisedConversationUpdate,
    ChatCaller,
    CurrentGateway,
)
from gateway.http.document_pages import list_response, object_response
from gateway.http.json_response import json_response
from gateway.http.pagination import query_of
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.openai.responses.conversations import (
    Conversation,
    ConversationCreate,
    ConversationDeleted,
    ConversationItem,
    ConversationItemList,
    ConversationItemQuery,
    ConversationItemsCreate,
    ConversationUpdate,
    IncludeQuery,
)
from gateway.openai.responses.items import InputItem
from gateway.openai.responses.stored_items import to_stored, without_ids
from stored_objects.conversations.conversations import Item, item_of
from stored_objects.project_documents.records import DocumentQuery, ProjectDocument, ProjectOwner

router = APIRouter(prefix="/v1/conversations", route_class=IdempotentRoute)

Included = Annotated[IncludeQuery, Depends(query_of(IncludeQuery))]


@router.post("", **document_route(Conversation, body=ConversationCreate))
async def create_conversation(authorised: AuthorisedConversation) -> Response:
    """Create a conversation, with its first items if there are any (`POST /v1/conversations`)."""
    caller, body, gateway = authorised
    items = _new_items(body.items or [])
    return _response(await gateway.conversations.create(ProjectOwner.of(caller), body.metadata or {}, items))


@router.get("/{conversation_id}", **document_route(Conversation))
async def retrieve_conversation(conversation_id: str, caller: ChatCaller, gateway: CurrentGateway) -> Response:
    """Return a conversation, without its items (`GET /v1/conversations/{conversation_id}`)."""
    return _response(await gateway.conversations.find(ProjectOwner.of(caller), conversation_id))


@router.post("/{conversation_id}", **document_route(Conversation, body=ConversationUpdate))
async def update_conversation(conversation_id: str, authorised: AuthorisedConversationUpdate) -> Response:
    """Replace the metadata of a conversation (`POST /v1/conversations/{conversation_id}`)."""
    caller, body, gateway = authorised
    owner, conversations = ProjectOwner.of(caller), gateway.conversations
    await conversations.find(owner, conversation_id)
    return _response(await conversations.documents.set_metadata(owner, conversation_id, body.metadata or {}))


@router.delete("/{conversation_id}", **document_route(ConversationDeleted))
async def delete_conversation(conversation_id: str, caller: ChatCaller, gateway: CurrentGateway) -> Response:
    """Erase a conversation with its items (`DELETE /v1/conversations/{conversation_id}`)."""
    owner, conversations = ProjectOwner.of(caller), gateway.conversations
    await conversations.find(owner, conversation_id)
    await conversations.documents.delete(owner, conversation_id)
    return json_response(ConversationDeleted(id=conversation_id))


@router.post("/{conversation_id}/items", **document_route(ConversationItemList, body=ConversationItemsCreate))
async def create_items(conversation_id: str, authorised: AuthorisedConversationItems, _query: Included) -> Response:
    """Append items to a conversation, and return them (`POST /v1/conversations/{conversation_id}/items`)."""
    caller, body, gateway = authorised
    conversation = await gateway.conversations.find(ProjectOwner.of(caller), conversation_id)
    items = _new_items(body.items)
    await gateway.conversations.append(conversation, items)
    ids = {"first_id": items[0]["id"], "last_id": items[-1]["id"]}
    return object_response({"object": "list", "data": items, **ids, "has_more": False})


@router.get("/{conversation_id}/items", **document_route(ConversationItemList, query=ConversationItemQuery))
async def list_items(
    conversation_id: str,
    caller: ChatCaller,
    gateway: CurrentGateway,
    query: Annotated[ConversationItemQuery, Depends(query_of(ConversationItemQuery))],
) -> Response:
    """List a page of a conversation's items (`GET /v1/conversations/{conversation_id}/items`)."""
    owner, conversations = ProjectOwner.of(caller), gateway.conversations
    await conversations.find(owner, conversation_id)
    selected = DocumentQuery(limit=query.limit, order=query.order, parent=conversation_id)
    return await list_response(conversations.documents, owner, selected, query.after, item_of)


@router.get("/{conversation_id}/items/{item_id}", **document_route(ConversationItem, query=IncludeQuery))
async def retrieve_item(
    conversation_id: str, item_id: str, caller: ChatCaller, gateway: CurrentGateway, _query: Included
) -> Response:
    """Return one item of a conversation (`GET /v1/conversations/{conversation_id}/items/{item_id}`)."""
    return object_response(await gateway.conversations.find_item(ProjectOwner.of(caller), conversation_id, item_id))


@router.delete("/{conversation_id}/items/{item_id}", **document_route(Conversation))
async def delete_item(conversation_id: str, item_id: str, caller: ChatCaller, gateway: CurrentGateway) -> Response:
    """Erase one item of a conversation, and return the conversation.

    Answers `DELETE /v1/conversations/{conversation_id}/items/{item_id}`.
    """
    owner, conversations = ProjectOwner.of(caller), gateway.conversations
    await conversations.delete_item(owner, conversation_id, item_id)
    return _response(await conversations.find(owner, conversation_id))


def _new_items(items: Sequence[InputItem]) -> list[Item]:
    """Return items to be stored, with new ids."""
    return to_stored(without_ids(items), f"conv_{uuid.uuid4().hex}")


def _response(document: ProjectDocument) -> Response:
    created = int(document.created)
    return json_response(Conversation(id=document.id, created_at=created, metadata=document.metadata))
