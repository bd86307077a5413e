"""Routes of stored chat completions (`store`): list, retrieve, update, delete, and list the messages of one.

A completion belongs to the project of the API key that created it; for other projects it does not exist.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from auth_billing.access.principal import Principal
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedCompletionUpdate, ChatCaller, CurrentGateway
from gateway.http.document_pages import list_response, object_response
from gateway.http.gateway import Gateway
from gateway.http.json_response import json_response
from gateway.http.pagination import query_of
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.openai.pagination import OrderedPageQuery
from gateway.openai.stored_completions import (
    StoredChatCompletion,
    StoredChatCompletionDeleted,
    StoredChatCompletionList,
    StoredChatCompletionQuery,
    StoredChatCompletionUpdate,
    StoredMessageList,
)
from stored_objects.errors import DocumentNotFound
from stored_objects.project_documents.records import DocumentQuery, ProjectDocument, ProjectOwner

router = APIRouter(route_class=IdempotentRoute)


@router.get("/v1/chat/completions", **document_route(StoredChatCompletionList, query=StoredChatCompletionQuery))
async def list_chat_completions(
    caller: ChatCaller,
    gateway: CurrentGateway,
    query: Annotated[StoredChatCompletionQuery, Depends(query_of(StoredChatCompletionQuery))],
) -> Response:
    """List a page of the stored chat completions of the caller's project (`GET /v1/chat/completions`)."""
    selected = DocumentQuery(limit=query.limit, order=query.order, model=query.model, metadata=query.metadata)
    documents = gateway.documents.completions
    return await list_response(documents, ProjectOwner.of(caller), selected, query.after, _completion)


@router.get("/v1/chat/completions/{completion_id}", **document_route(StoredChatCompletion))
async def retrieve_chat_completion(completion_id: str, caller: ChatCaller, gateway: CurrentGateway) -> Response:
    """Return one stored chat completion (`GET /v1/chat/completions/{completion_id}`)."""
    return object_response(_completion(await _find(gateway, caller, completion_id)))


@router.post(
    "/v1/chat/completions/{completion_id}", **document_route(StoredChatCompletion, body=StoredChatCompletionUpdate)
)
async def update_chat_completion(completion_id: str, authorised: AuthorisedCompletionUpdate) -> Response:
    """Replace the metadata of one stored chat completion (`POST /v1/chat/completions/{completion_id}`)."""
    caller, body, gateway = authorised
    await _find(gateway, caller, completion_id)
    documents = gateway.documents.completions
    return object_response(
        _completion(await documents.set_metadata(ProjectOwner.of(caller), completion_id, body.metadata or {}))
    )


@router.delete("/v1/chat/completions/{completion_id}", **document_route(StoredChatCompletionDeleted))
async def delete_chat_completion(completion_id: str, caller: ChatCaller, gateway: CurrentGateway) -> Response:
    """Erase one stored chat completion and its messages (`DELETE /v1/chat/completions/{completion_id}`)."""
    await _find(gateway, caller, completion_id)
    await gateway.documents.completions.delete(ProjectOwner.of(caller), completion_id)
    return json_response(StoredChatCompletionDeleted(id=completion_id))


@router.get(
    "/v1/chat/completions/{completion_id}/messages", **document_route(StoredMessageList, query=OrderedPageQuery)
)
async def list_chat_completion_messages(
    completion_id: str,
    caller: ChatCaller,
    gateway: CurrentGateway,
    query: Annotated[OrderedPageQuery, Depends(query_of(OrderedPageQuery))],
) -> Response:
    """List a page of the messages that a stored chat completion answered.

    Answers `GET /v1/chat/completions/{completion_id}/messages`.
    """
    owner, documents = ProjectOwner.of(caller), gateway.documents.completions
    await _find(gateway, caller, completion_id)
    selected = DocumentQuery(limit=query.limit, order=query.order, parent=completion_id)
    return await list_response(documents, owner, selected, query.after, _message)


async def _find(gateway: Gateway, caller: Principal, id: str) -> ProjectDocument:
    """Return a stored completion of the caller's project.

    Raises:
        DocumentNotFound: the project has none with this id, which may be that of a message.
    """
    found = await gateway.documents.completions.find(ProjectOwner.of(caller), id)
    if found.parent:
        raise DocumentNotFound(id)
    return found


def _completion(document: ProjectDocument) -> dict[str, Any]:
    completion: dict[str, Any] = json.loads(document.content)
    return {**completion, "metadata": document.metadata}


def _message(document: ProjectDocument) -> dict[str, Any]:
    return {"id": document.id, **json.loads(document.content)}
