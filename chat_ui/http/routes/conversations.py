"""Routes of conversations, their messages and share links: `/api/conversations`, `/api/shared`.

The caller is the owner in every lookup: another owner's conversation gives 404, as a missing one does.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from auth_billing.access.roles import Role
from auth_billing.errors import NotPermitted
from auth_billing.people.sessions import BrowserSession
from chat_ui.chat import chat_of, owner_of
from chat_ui.conversations import Question
from chat_ui.history.bounds import LARGEST_PAGE
from chat_ui.history.records import Attachment
from chat_ui.http import rendering
from chat_ui.http.answers import nothing, shown
from chat_ui.http.bodies import NoBody, body_of
from chat_ui.http.guard import Caller, public, takes_up_to
from chat_ui.http.shapes.conversations import (
    AnswerBegun,
    Asked,
    AttachmentBody,
    Conversation,
    ConversationBody,
    ConversationPage,
    ConversationRow,
    NewConversationBody,
    QuestionBody,
    RegenerateBody,
    SharedConversation,
    ShareLink,
    Stopping,
)

router = APIRouter()

ONE = "/conversations/{conversation_id}"
MESSAGE = ONE + "/messages/{message_id}"
QUESTION_BYTES = 8 * 2**20
"""Largest body of a question with its files; JSON escapes may make it several times as long as the text."""
PageSize = Annotated[int, Field(ge=1, le=LARGEST_PAGE)]


class ListQuery(BaseModel):
    """Query parameters of a list of conversations."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    q: Annotated[str, Field(max_length=1000)] = ""
    """Words to search for; the last one may be a prefix."""
    archived: bool = False
    cursor: Annotated[str, Field(max_length=100)] | None = None
    """`next` of the previous page."""
    limit: PageSize = 30


@router.get("/conversations", response_model=ConversationPage)
async def list_conversations(request: Request, caller: Caller, query: Annotated[ListQuery, Query()]) -> Response:
    """List the caller's conversations by page: pinned ones first, then the newest."""
    listing, owner, words = chat_of(request).listing, owner_of(caller), query.q.strip()
    if words:
        page = await listing.search(owner, words, archived=query.archived, before=query.cursor, limit=query.limit)
    else:
        page = await listing.page(owner, archived=query.archived, before=query.cursor, limit=query.limit)
    return shown(
        ConversationPage(conversations=[rendering.row(each) for each in page.rows], next=page.next, total=page.total)
    )


@router.post("/conversations", response_model=Conversation, status_code=201)
async def create_conversation(
    request: Request, caller: Caller, body: Annotated[NewConversationBody, Depends(body_of(NewConversationBody))]
) -> Response:
    """Create an empty conversation."""
    conversations, owner = chat_of(request).conversations, owner_of(caller)
    created = await conversations.create(owner, rendering.settings_of(body.settings))
    return shown(rendering.conversation(await conversations.row(owner, created.id), []), 201)


@router.get(ONE, response_model=Conversation)
async def read_conversation(request: Request, conversation_id: str, caller: Caller) -> Response:
    """Return a conversation with all its branches."""
    conversations, owner = chat_of(request).conversations, owner_of(caller)
    row = await conversations.row(owner, conversation_id)
    return shown(rendering.conversation(row, await conversations.messages(owner, conversation_id)))


@router.patch(ONE, response_model=ConversationRow)
@takes_up_to(4 * 64 * 1024)
async def change_conversation(
    request: Request,
    conversation_id: str,
    caller: Caller,
    body: Annotated[ConversationBody, Depends(body_of(ConversationBody))],
) -> Response:
    """Rename, pin or archive a conversation, select another branch, or change its model settings."""
    changes = {name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) is not None}
    if body.settings is not None:
        changes["settings"] = rendering.settings_of(body.settings)
    row = await chat_of(request).conversations.change(owner_of(caller), conversation_id, changes)
    return shown(rendering.row(row))


@router.delete(ONE, status_code=204)
async def delete_conversation(
    request: Request, conversation_id: str, caller: Caller, _none: Annotated[NoBody, Depends(body_of(NoBody))]
) -> Response:
    """Delete a conversation and its share link permanently."""
    await chat_of(request).conversations.remove(owner_of(caller), conversation_id)
    return nothing()


@router.post(ONE + "/messages", response_model=Asked, status_code=202)
@takes_up_to(QUESTION_BYTES)
async def ask(
    request: Request,
    conversation_id: str,
    caller: Caller,
    body: Annotated[QuestionBody, Depends(body_of(QuestionBody))],
) -> Response:
    """Ask a question. The answer is written in the background; its events report progress."""
    settings = None if body.settings is None else rendering.settings_of(body.settings)
    conversations, owner, files = (
        chat_of(request).conversations,
        owner_of(caller),
        list(map(_attachment, body.attachments)),
    )
    if body.attachments_of is not None:
        files = [*(await conversations.message(owner, conversation_id, body.attachments_of)).attachments, *files]
    question = Question(body.parent, body.text, files)
    asked, answer = await conversations.ask(owner, _project(caller), conversation_id, question, settings)
    return shown(Asked(question=rendering.message(asked), answer=rendering.message(answer)), 202)


@router.post(MESSAGE + "/regenerate", response_model=AnswerBegun, status_code=202)
@takes_up_to(4 * 64 * 1024)
async def regenerate(
    request: Request,
    conversation_id: str,
    message_id: str,
    caller: Caller,
    body: Annotated[RegenerateBody, Depends(body_of(RegenerateBody))],
) -> Response:
    """Start another answer to the same question; `message_id` is an answer or a question."""
    settings = None if body.settings is None else rendering.settings_of(body.settings)
    answer = await chat_of(request).conversations.regenerate(
        owner_of(caller), _project(caller), conversation_id, message_id, settings
    )
    return shown(AnswerBegun(answer=rendering.message(answer)), 202)


@router.post(MESSAGE + "/stop", response_model=Stopping, status_code=202)
async def stop(
    request: Request,
    conversation_id: str,
    message_id: str,
    caller: Caller,
    _none: Annotated[NoBody, Depends(body_of(NoBody))],
) -> Response:
    """Stop an answer and cancel its generation; the text so far is kept."""
    answer = await chat_of(request).conversations.stop(owner_of(caller), conversation_id, message_id)
    return shown(Stopping(answer=rendering.message(answer)), 202)


@router.post(ONE + "/share", response_model=ShareLink, status_code=201)
async def share(
    request: Request, conversation_id: str, caller: Caller, _none: Annotated[NoBody, Depends(body_of(NoBody))]
) -> Response:
    """Create a public link to the selected branch; an earlier link becomes invalid."""
    token = await chat_of(request).conversations.share(owner_of(caller), conversation_id)
    return shown(ShareLink(token=token), 201)


@router.delete(ONE + "/share", status_code=204)
async def unshare(
    request: Request, conversation_id: str, caller: Caller, _none: Annotated[NoBody, Depends(body_of(NoBody))]
) -> Response:
    """Invalidate the share link."""
    await chat_of(request).conversations.unshare(owner_of(caller), conversation_id)
    return nothing()


@router.get("/shared/{token}", response_model=SharedConversation)
@public
async def read_shared(request: Request, token: str) -> Response:
    """Return the conversation of a share link: the branch that is selected now, read-only."""
    conversation, branch = await chat_of(request).conversations.shared(token)
    return shown(rendering.shared(conversation, branch))


def _attachment(body: AttachmentBody) -> Attachment:
    return Attachment(body.name, body.text, len(body.text.encode()))


def _project(caller: BrowserSession) -> str:
    """Return the project that is billed.

    Raises:
        NotPermitted: the caller's role may not use models, or there is no project.
    """
    caller.actor.require(Role.MEMBER)
    if not caller.project:
        raise NotPermitted("the organisation has no project in use")
    return caller.project
