"""Changes conversations for the chat API: creates them, adds questions, starts and stops answers, shares, deletes.

Each lookup is by owner, so a conversation of another owner is missing (`NoSuchConversation`). Answers are written by
`generations/`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from auth_billing.errors import StoreUnavailable
from auth_billing.ids import new_id
from chat_ui.errors import AnswerRunning, ConversationFull, InvalidField, NoSuchConversation, existing
from chat_ui.generations.answer_events import AnswerEvents
from chat_ui.generations.generations import Generations
from chat_ui.history.conversation_images import ConversationImages, ImageReference
from chat_ui.history.conversation_lists import ListedConversation
from chat_ui.history.limits import MAX_ATTACHMENT_BYTES, MAX_CONVERSATION_BYTES, MAX_MESSAGES
from chat_ui.history.message_tree import branch, by_id
from chat_ui.history.quota import ConversationQuota
from chat_ui.history.records import (
    Attachment,
    Conversation,
    ConversationStore,
    Message,
    MessageStore,
    ModelSettings,
    Owner,
    Role,
    ShareStore,
    State,
)
from chat_ui.history.search_terms import search_terms
from chat_ui.history.storage import ANSWER_BLOCK, StorageQuota, conversation_bytes, message_bytes, settings_growth

TOKEN_BYTES = 32

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Question:
    """A question to a model. `parent` is the message that it follows; `None`: it begins the conversation."""

    parent: str | None
    text: str
    attachments: Sequence[Attachment] = ()
    images: Sequence[ImageReference] = ()


class Conversations:
    """Creates and changes conversations; every method takes the owner on whose behalf it acts.

    A method raises `NoSuchConversation` if the owner has no conversation, or no message in it, with the given id.

    Args:
        generations: writes the answers.
        quota: limits the number of conversations per owner.
        storage: limits the bytes that an owner stores.
        images: keeps the images of a conversation until it is deleted.
        joined: returns when an owner's membership began, in Unix seconds; `None`: the owner is no member.
    """

    def __init__(
        self,
        conversations: ConversationStore,
        messages: MessageStore,
        shares: ShareStore,
        generations: Generations,
        *,
        quota: ConversationQuota,
        storage: StorageQuota,
        images: ConversationImages,
        joined: Callable[[Owner], Awaitable[float | None]],
    ) -> None:
        self._conversations = conversations
        self._messages = messages
        self._shares = shares
        self._generations = generations
        self._quota = quota
        self._storage = storage
        self._images = images
        self._joined = joined

    async def create(self, owner: Owner, settings: ModelSettings) -> Conversation:
        """Create and store an empty conversation of the owner, and return it.

        Raises:
            ConversationFull: the owner has as many conversations as allowed.
            StorageFull: the owner has reached the limit of bytes.
        """
        await self._quota.reserve(owner, 1)
        size = conversation_bytes(settings)
        await self._storage.reserve(owner, size)
        now = time.time()
        conversation = Conversation(new_id("conv-"), "", now, now, settings, size=size)
        await self._conversations.add(owner, conversation)
        return conversation

    async def row(self, owner: Owner, conversation_id: str) -> ListedConversation:
        """Return one conversation of the owner as lists show it: with whether an answer in it is being written.

        Raises:
            NoSuchConversation: the owner has no conversation with this id.
        """
        conversation = await self.find(owner, conversation_id)
        return ListedConversation(conversation, bool(await self._messages.with_open_answers(owner, [conversation_id])))

    async def find(self, owner: Owner, conversation_id: str) -> Conversation:
        """Return the owner's conversation with this id, without its messages.

        Raises:
            NoSuchConversation: the owner has no conversation with this id.
        """
        return existing(await self._conversations.find(owner, conversation_id), conversation_id)

    async def messages(self, owner: Owner, conversation_id: str) -> list[Message]:
        """Return all messages of an owner's conversation, oldest first.

        Answers that this process is writing have their newest text.
        """
        found = await self._messages.all(owner, conversation_id)
        live = {each.id: self._generations.live(each.id) for each in found if each.state.is_open}
        return [each if (now := live.get(each.id)) is None or now.released else now.snapshot for each in found]

    async def change(self, owner: Owner, conversation_id: str, changes: Mapping[str, Any]) -> ListedConversation:
        """Store changes of a conversation, given by field name, and return the changed conversation.

        The fields are title, settings, the pinned and the archived flag, and the selected branch, `leaf`.

        Raises:
            NoSuchConversation: the owner has no conversation with this id.
            InvalidField: there is no such leaf.
            StorageFull: the owner has reached the limit of bytes.
        """
        if "leaf" in changes and await self._messages.find(owner, conversation_id, changes["leaf"]) is None:
            await self.find(owner, conversation_id)
            raise InvalidField("leaf", "There is no such message in this conversation.")
        growth: dict[str, int] = {}
        if "settings" in changes:
            before = await self.find(owner, conversation_id)
            growth["size"] = settings_growth(before.settings, changes["settings"])
            await self._storage.reserve(owner, growth["size"])
        changed = existing(await self._conversations.change(owner, conversation_id, changes, growth), conversation_id)
        if "title" in changes:
            await self._conversations.add_terms(owner, conversation_id, search_terms([changed.title]))
        return ListedConversation(changed, bool(await self._messages.with_open_answers(owner, [conversation_id])))

    async def remove(self, owner: Owner, conversation_id: str) -> None:
        """Delete a conversation with messages and share link, release its images, and stop its open answers.

        Raises:
            NoSuchConversation: the owner has no conversation with this id.
        """
        await self.find(owner, conversation_id)
        for message in await self._messages.all(owner, conversation_id):
            if message.state.is_open:
                await self.stop(owner, conversation_id, message.id)
        removed = await self.find(owner, conversation_id)
        await self._images.release(owner, conversation_id)
        if await self._conversations.remove(owner, conversation_id):
            await self._storage.release(owner, removed.size)
        await self._images.release(owner, conversation_id)  # those that an answer kept meanwhile

    async def ask(
        self, owner: Owner, project: str, conversation_id: str, question: Question, settings: ModelSettings | None
    ) -> tuple[Message, Message]:
        """Store a question in a conversation, start a task that writes its answer, and return both messages.

        Args:
            project: id of the project that the answer is billed to.
            settings: model and settings for this and later answers; `None`: those of the conversation.

        Raises:
            NoSuchConversation: the owner has no such conversation, or it has no message with the parent's id.
            InvalidField: no model is selected, the parent is no answer, or files or images are too large or too many.
            AnswerRunning: the parent is being written.
            ConversationFull: the conversation has reached its limit of messages or bytes.
            StorageFull: the owner has reached the limit of bytes.
        """
        conversation = await self.find(owner, conversation_id)
        settings = settings or conversation.settings
        await self._check_parent(owner, conversation, question.parent)
        _check(conversation, question, settings)
        now = time.time()
        asked = Message(
            new_id("msg-"),
            conversation_id,
            question.parent,
            Role.USER,
            question.text,
            now,
            question.attachments,
            images=await self._images.attach(owner, conversation_id, question.images),
        )
        answer = self._answer(asked, project, settings, now)
        size = await self._reserve(owner, conversation, settings, [asked, answer])
        await self._messages.add(owner, [asked, answer], self._generations.writer, self._generations.lease)
        self._generations.start(owner, answer)
        changes = {"leaf": answer.id, "updated": now, "settings": settings}
        await self._conversations.change(owner, conversation_id, changes, {"messages": 2, "size": size})
        if asked.images:
            await self._images.release_if_deleted(owner, conversation_id)
        try:
            await self._conversations.add_terms(owner, conversation_id, search_terms([question.text]))
        except StoreUnavailable as error:  # the question is stored already, only search misses it
            _log.warning("a question was not added to the search terms", reason=str(error))
        return asked, answer

    async def regenerate(
        self,
        owner: Owner,
        project: str,
        conversation_id: str,
        message_id: str,
        settings: ModelSettings | None,
        *,
        allowed_once: str | None = None,
    ) -> Message:
        """Start a task that writes another answer to a question, and return that answer.

        `message_id` is the question or one of its answers. `allowed_once` is a consent to a tool that holds for this
        answer, beside those of the conversation.

        Raises:
            NoSuchConversation: the owner has no such conversation or message.
            InvalidField: no model is selected.
            ConversationFull: the conversation has reached its limit of messages or bytes.
            StorageFull: the owner has reached the limit of bytes.
        """
        conversation = await self.find(owner, conversation_id)
        message = await self.message(owner, conversation_id, message_id)
        question = message
        while question.role is Role.ASSISTANT:  # imported branches may have several answers in a row
            question = await self.message(owner, conversation_id, question.parent or "")
        consents = conversation.settings.tools_allowed  # those of an earlier answer may have been withdrawn
        settings = settings or replace(message.settings or conversation.settings, tools_allowed=consents)
        _check(conversation, Question(None, ""), settings)
        now = time.time()
        more = () if allowed_once is None else (allowed_once,)
        allowing = replace(settings, tools_allowed=(*settings.tools_allowed, *more))
        answer = self._answer(question, project, allowing, now)
        size = await self._reserve(owner, conversation, settings, [answer])
        await self._messages.add(owner, [answer], self._generations.writer, self._generations.lease)
        self._generations.start(owner, answer)
        changes = {"leaf": answer.id, "updated": now, "settings": settings}
        await self._conversations.change(owner, conversation_id, changes, {"messages": 1, "size": size})
        return answer

    async def stop(self, owner: Owner, conversation_id: str, message_id: str) -> Message:
        """Request that an answer be stopped, in whichever process it is written; return the stored message at once.

        The answer keeps its text so far; an answer that has ended does not change.

        Raises:
            NoSuchConversation: the owner has no such conversation or message.
        """
        message = existing(await self._messages.request_stop(owner, conversation_id, message_id), message_id)
        self._generations.stop(message_id)
        return message

    async def message(self, owner: Owner, conversation_id: str, message_id: str) -> Message:
        """Return one stored message of a conversation, its attachments without their text.

        Raises:
            NoSuchConversation: the owner has no such conversation or message.
        """
        return existing(await self._messages.find(owner, conversation_id, message_id), message_id)

    async def files_of(
        self, owner: Owner, conversation_id: str, message_id: str
    ) -> tuple[Sequence[Attachment], Sequence[ImageReference]]:
        """Return the files attached to a question with their text, and the attached images that are still stored.

        Raises:
            NoSuchConversation: the owner has no such conversation or message.
        """
        found = await self._messages.find_many(owner, conversation_id, [message_id])
        message = existing(found[0] if found else None, message_id)
        present = await self._images.present(owner, [each.blob for each in message.images])
        images = [ImageReference(each.blob, each.name) for each in message.images if each.blob in present]
        return message.attachments, images

    def answer_events(self, owner: Owner, conversation_id: str, message_id: str) -> AnswerEvents:
        """Return a reader that streams one answer's events (text, steps, end) to one client; nothing is read yet."""
        return AnswerEvents(self._generations, self._messages, owner, conversation_id, message_id)

    async def share(self, owner: Owner, conversation_id: str) -> str:
        """Create a conversation's public link, store its digest, and return its token; an earlier link becomes invalid.

        Raises:
            NoSuchConversation: the owner has no conversation with this id.
        """
        await self.find(owner, conversation_id)
        joined = existing(await self._joined(owner), conversation_id)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        await self._shares.put(owner, conversation_id, _digest(token), joined)
        await self._conversations.change(owner, conversation_id, {"shared": True})
        return token

    async def unshare(self, owner: Owner, conversation_id: str) -> None:
        """Delete the share link of a conversation, if it has one, so that the link does not work any more.

        Raises:
            NoSuchConversation: the owner has no conversation with this id.
        """
        await self.find(owner, conversation_id)
        await self._shares.remove(owner, conversation_id)
        await self._conversations.change(owner, conversation_id, {"shared": False})

    async def shared(self, token: str) -> tuple[Conversation, list[Message]]:
        """Return the conversation that the share link `token` shows, and the messages of its selected branch.

        Raises:
            NoSuchConversation: the link does not exist or was invalidated, or its owner was removed since it was made.
        """
        owner, conversation_id, joined = existing(await self._shares.find(_digest(token)), "share")
        since = existing(await self._joined(owner), "share")
        if joined not in (None, since):
            raise NoSuchConversation("share")
        conversation = await self.find(owner, conversation_id)
        return conversation, branch(by_id(await self.messages(owner, conversation_id)), conversation.leaf)

    async def _reserve(
        self, owner: Owner, conversation: Conversation, settings: ModelSettings, messages: Sequence[Message]
    ) -> int:
        """Count the bytes of new messages, the answer's first block and changed settings; return their number."""
        size = settings_growth(conversation.settings, settings) + sum(map(message_bytes, messages)) + ANSWER_BLOCK
        await self._storage.reserve(owner, size)
        return size

    def _answer(self, question: Message, project: str, settings: ModelSettings, now: float) -> Message:
        return Message(
            new_id("msg-"),
            question.conversation,
            question.id,
            Role.ASSISTANT,
            "",
            max(now, question.created + 0.001),  # messages are sorted by time: an answer must come after its question
            state=State.WAITING,
            settings=settings,
            project=project,
        )

    async def _check_parent(self, owner: Owner, conversation: Conversation, parent: str | None) -> None:
        if parent is None:
            return
        message = await self.message(owner, conversation.id, parent)
        if message.role is not Role.ASSISTANT:
            raise InvalidField("parent", "A question follows an answer, or nothing.")
        if message.state.is_open:
            raise AnswerRunning(parent)


def _check(conversation: Conversation, question: Question, settings: ModelSettings) -> None:
    """Check model and sizes; raises as `Conversations.ask` documents."""
    if not settings.model:
        raise InvalidField("settings", "Choose a model first.")
    files = sum(each.size for each in question.attachments)
    if files > MAX_ATTACHMENT_BYTES:
        raise InvalidField("attachments", f"Files have {MAX_ATTACHMENT_BYTES // 1024} KiB together at most.")
    size = files + len(question.text.encode())
    if conversation.messages + 2 > MAX_MESSAGES or conversation.size + size > MAX_CONVERSATION_BYTES:
        raise ConversationFull("This conversation is full. Please begin a new one.")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
