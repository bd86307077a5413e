"""HTTP routes of conversations, their messages and share links: `/api/conversations`, `/api/shared`.

The caller is the owner in every lookup: another owner's conversation gives 404, as a missing one does.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from auth_billing.access.roles import Role
from auth_billing.errors import NotPermitted
from auth_billing.people.sessions import BrowserSession
from chat_ui.conversations import Question
from chat_ui.history.conversation_images import ImageReference
from chat_ui.history.limits import MAX_PAGE_SIZE
from chat_ui.history.records import Attachment
from chat_ui.http import serialisation
from chat_ui.http.access_control import Caller, max_body, public
from chat_ui.http.request_bodies import EmptyJson
from chat_ui.http.responses import no_content, schema_response
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.http.schemas.conversations import (
    AnswerBegun,
    Asked,
    Conversation,
    ConversationJson,
    ConversationPage,
    ConversationRow,
    NewConversationJson,
    QuestionJson,
    RegenerateJson,
    SharedConversation,
    ShareLink,
    Stopping,
)
from chat_ui.services import owner_of, services_of
from stored_objects.images.results import BlobAddress

router = APIRouter()

ONE = "/conversations/{conversation_id}"
MESSAGE = ONE + "/messages/{message_id}"
QUESTION_BYTES = 8 * 2**20
"""Largest body of a question with its files; JSON escapes may make it several times as long as the text."""
PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)]


class ListQuery(QueryParameters):
    """Query parameters of a list of conversations."""

    q: Annotated[str, Field(max_length=1000)] = ""
    """Words to search for; the last one may be a prefix."""
    archived: bool = False
    cursor: Annotated[str, Field(max_length=100)] | None = None
    """`next` of the previous page."""
    limit: PageSize = 30


@router.get("/conversations", response_model=ConversationPage)
async def list_conversations(request: Request, caller: Caller, query: Annotated[ListQuery, Query()]) -> Response:
    """List or search the caller's conversations by page, pinned first, then newest (`GET /api/conversations`)."""
    lists, owner, words = services_of(request).lists, owner_of(caller), query.q.strip()
    if words:
        page = await lists.search(owner, words, archived=query.archived, before=query.cursor, limit=query.limit)
    else:
        page = await lists.page(owner, archived=query.archived, before=query.cursor, limit=query.limit)
    return schema_response(
        ConversationPage(
            conversations=[serialisation.row(each) for each in page.rows], next=page.next, total=page.total
        )
    )


@router.post("/conversations", response_model=Conversation, status_code=201)
async def create_conversation(request: Request, caller: Caller, body: NewConversationJson) -> Response:
    """Create an empty conversation of the caller, and return it (`POST /api/conversations`)."""
    conversations, owner = services_of(request).conversations, owner_of(caller)
    created = await conversations.create(owner, serialisation.settings_of(body.settings))
    return schema_response(
        serialisation.conversation(await conversations.row(owner, created.id), [], _address(request)), 201
    )


@router.get(ONE, response_model=Conversation)
async def read_conversation(request: Request, conversation_id: str, caller: Caller) -> Response:
    """Return the caller's conversation with all branches' messages (`GET /api/conversations/{conversation_id}`)."""
    conversations, owner = services_of(request).conversations, owner_of(caller)
    row = await conversations.row(owner, conversation_id)
    messages = await conversations.messages(owner, conversation_id)
    return schema_response(serialisation.conversation(row, messages, _address(request)))


@router.patch(ONE, response_model=ConversationRow)
@max_body(4 * 64 * 1024)
async def change_conversation(
    request: Request, conversation_id: str, caller: Caller, body: ConversationJson
) -> Response:
    """Rename, pin or archive a conversation, select another branch, or change its model settings.

    Route: `PATCH /api/conversations/{conversation_id}`.
    """
    changes = {name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) is not None}
    if body.settings is not None:
        changes["settings"] = serialisation.settings_of(body.settings)
    row = await services_of(request).conversations.change(owner_of(caller), conversation_id, changes)
    return schema_response(serialisation.row(row))


@router.delete(ONE, status_code=204)
async def delete_conversation(request: Request, conversation_id: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Delete a conversation permanently, with its messages and share link; stop its open answers.

    Route: `DELETE /api/conversations/{conversation_id}`.
    """
    await services_of(request).conversations.remove(owner_of(caller), conversation_id)
    return no_content()


@router.post(ONE + "/messages", response_model=Asked, status_code=202)
@max_body(QUESTION_BYTES)
async def ask(request: Request, conversation_id: str, caller: Caller, body: QuestionJson) -> Response:
    """Store a question and start its answer, which is written in the background; return both messages.

    Route: `POST /api/conversations/{conversation_id}/messages`. The answer's events report progress.
    """
    settings = None if body.settings is None else serialisation.settings_of(body.settings)
    conversations, owner = services_of(request).conversations, owner_of(caller)
    files = [Attachment(each.name, each.text, len(each.text.encode())) for each in body.attachments]
    images = [ImageReference(each.blob, each.name) for each in body.images]
    if body.attachments_of is not None:
        earlier_files, earlier_images = await conversations.files_of(owner, conversation_id, body.attachments_of)
        files, images = [*earlier_files, *files], [*earlier_images, *images]
    question = Question(body.parent, body.text, files, images)
    asked, answer = await conversations.ask(owner, _project(caller), conversation_id, question, settings)
    question_shown, answer_shown = (serialisation.message(each, _address(request)) for each in (asked, answer))
    return schema_response(Asked(question=question_shown, answer=answer_shown), 202)


@router.post(MESSAGE + "/regenerate", response_model=AnswerBegun, status_code=202)
@max_body(4 * 64 * 1024)
async def regenerate(
    request: Request, conversation_id: str, message_id: str, caller: Caller, body: RegenerateJson
) -> Response:
    """Start another answer to a question in the background; return the answer.

    Route: `POST /api/conversations/{conversation_id}/messages/{message_id}/regenerate`. `message_id` is an answer or a
    question.
    """
    settings = None if body.settings is None else serialisation.settings_of(body.settings)
    answer = await services_of(request).conversations.regenerate(
        owner_of(caller), _project(caller), conversation_id, message_id, settings, allowed_once=body.allowed_once
    )
    return schema_response(AnswerBegun(answer=serialisation.message(answer, _address(request))), 202)


@router.post(MESSAGE + "/stop", response_model=Stopping, status_code=202)
async def stop(request: Request, conversation_id: str, message_id: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Request that an answer be stopped and its generation cancelled; the text so far is kept.

    Route: `POST /api/conversations/{conversation_id}/messages/{message_id}/stop`.
    """
    answer = await services_of(request).conversations.stop(owner_of(caller), conversation_id, message_id)
    return schema_response(Stopping(answer=serialisation.message(answer, _address(request))), 202)


@router.post(ONE + "/share", response_model=ShareLink, status_code=201)
async def share(request: Request, conversation_id: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Create a public link to the selected branch of a conversation, and return its token; earlier links become void.

    Route: `POST /api/conversations/{conversation_id}/share`.
    """
    token = await services_of(request).conversations.share(owner_of(caller), conversation_id)
    return schema_response(ShareLink(token=token), 201)


@router.delete(ONE + "/share", status_code=204)
async def unshare(request: Request, conversation_id: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Invalidate a conversation's share link, if it has one (`DELETE /api/conversations/{conversation_id}/share`)."""
    await services_of(request).conversations.unshare(owner_of(caller), conversation_id)
    return no_content()


@router.get("/shared/{token}", response_model=SharedConversation)
@public
async def read_shared(request: Request, token: str) -> Response:
    """Return the conversation of a share link, without a session (`GET /api/shared/{token}`).

    The conversation is read-only and has the branch that is selected now.
    """
    conversation, branch = await services_of(request).conversations.shared(token)
    return schema_response(serialisation.shared(conversation, branch, _address(request)))


def _address(request: Request) -> BlobAddress:
    return services_of(request).blob_address


def _project(caller: BrowserSession) -> str:
    """Return the project that is billed.

    Raises:
        NotPermitted: the caller's role may not use models, or there is no project.
    """
    caller.actor.require(Role.MEMBER)
    if not caller.project:
        raise NotPermitted("the organisation has no project in use")
    return caller.project
