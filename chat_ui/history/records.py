"""Defines records of conversations, messages and shares, and the interfaces of the stores that keep them.

Every record belongs to an `Owner`, and every lookup is by owner, so records of other owners are never found. (A share's
token and the list of abandoned answers are the two exceptions, and have ports of their own.) Times are Unix seconds.
Each method raises `StoreUnavailable` when the store does not answer in time; each is idempotent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from chat_ui.history.search_settings import SearchSettings
from chat_ui.history.steps import Step


@dataclass(frozen=True)
class Owner:
    """The owner of a record: a user within an organisation, which is billed."""

    organisation: str
    user: str


@dataclass(frozen=True)
class ModelSettings:
    """Model, system prompt and sampling settings of a request; `None` means the default of the model or operator."""

    model: str = ""
    system: str = ""
    temperature: float | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    max_tokens: int | None = None
    tools_off: tuple[str, ...] = ()
    """Names of an assistant's tools that are switched off; `*`: all of them."""
    tools_allowed: tuple[str, ...] = ()
    """The person's consents to calls of tools that ask for it, as the steps that asked have them."""
    test_time_compute: SearchSettings | None = None
    """How answers are searched for, by models that search."""
    vector_stores: tuple[str, ...] = ()
    """Ids of the vector stores from whose passages questions are answered."""


@dataclass(frozen=True)
class Attachment:
    """A text file attached to a question."""

    name: str
    text: str = field(repr=False)
    size: int
    """Bytes of UTF-8."""


@dataclass(frozen=True)
class AttachedImage:
    """An image attached to a question; its file is the stored object `blob` of the owner."""

    blob: str
    name: str
    size: int
    """Bytes of the file."""
    pixels: int


class Role(StrEnum):
    """The author of a message."""

    USER = "user"
    ASSISTANT = "assistant"


class State(StrEnum):
    """The state of a message; questions are `DONE`."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """Whether a message in this state is an answer that waits or is still being written."""
        return self in (State.WAITING, State.RUNNING)


@dataclass(frozen=True)
class TokenUsage:
    """Tokens that an answer used; `cached_tokens` are part of `prompt_tokens`."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
        )


@dataclass(frozen=True)
class AnswerError:
    """Why an answer is incomplete, with a message for people. `retry_after` is in seconds."""

    code: str
    message: str
    retry_after: int | None = None


@dataclass(frozen=True)
class QueueStatus:
    """An answer's queue position and estimated wait in seconds; `None`: not known."""

    position: int | None
    seconds: float | None


@dataclass(frozen=True)
class Message:
    """A question or an answer. `settings` and the fields after it, except `images`, are set for answers only."""

    id: str
    conversation: str
    parent: str | None
    role: Role
    text: str
    created: float
    attachments: Sequence[Attachment] = ()
    state: State = State.DONE
    settings: ModelSettings | None = None
    project: str = ""
    """Id of the project that is billed."""
    error: AnswerError | None = None
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    cost: int | None = None
    """Cost in nano-USD."""
    seconds: float | None = None
    first_token_seconds: float | None = None
    attempt: int = 0
    """How often the text was restarted."""
    steps: Sequence[Step] = ()
    """What an assistant did before the text; models never get it."""
    images: Sequence[AttachedImage] = ()
    """Images of a question."""
    waiting: QueueStatus | None = None
    """Queue position while the answer waits, as its writer last stored it (every few seconds)."""

    @property
    def model(self) -> str | None:
        """Name of the model that answered; `None` for questions."""
        return None if self.settings is None else self.settings.model


@dataclass(frozen=True)
class Conversation:
    """A conversation without its messages."""

    id: str
    title: str
    created: float
    updated: float
    settings: ModelSettings = ModelSettings()
    leaf: str | None = None
    pinned: bool = False
    archived: bool = False
    shared: bool = False
    messages: int = 0
    size: int = 0
    """Bytes for which the conversation is counted, with all its messages (`storage.py`)."""

    @property
    def order(self) -> str:
        """Sort key of lists, in descending order: pinned conversations first, then by time of the last change."""
        return f"{int(self.pinned)}{int(self.updated * 1000):014d}{self.id}"


@dataclass(frozen=True)
class PageQuery:
    """A query for one page of conversations. `before`: only those whose `order` is less."""

    archived: bool
    limit: int
    before: str | None = None


@dataclass(frozen=True)
class SearchResult:
    """A search result: a conversation's id and sort key."""

    id: str
    order: str


class ConversationStore(Protocol):
    """Store of conversations."""

    async def add(self, owner: Owner, conversation: Conversation) -> None:
        """Store a new conversation of the owner durably."""
        ...

    async def add_missing(self, owner: Owner, search_terms: Mapping[Conversation, Collection[str]]) -> None:
        """Store conversations of the owner durably, each with its search terms; existing ones are left unchanged."""
        ...

    async def find(self, owner: Owner, conversation_id: str) -> Conversation | None:
        """Return the owner's conversation with this id, without its messages; `None` if there is none."""
        ...

    async def page(self, owner: Owner, wanted: PageQuery) -> list[Conversation]:
        """Return the page of the owner's conversations that `wanted` describes, by descending `Conversation.order`."""
        ...

    async def find_many(self, owner: Owner, conversation_ids: Collection[str]) -> list[Conversation]:
        """Return those of the conversations with these ids that exist and are the owner's, in any order."""
        ...

    async def search(self, owner: Owner, words: Sequence[str], *, archived: bool) -> list[SearchResult]:
        """Return the owner's conversations that contain all words, by descending `order`, up to `MAX_RESULTS`.

        `words` are normalised terms (`search_terms.py`), at least one; the last one may be a prefix.
        """
        ...

    async def count(self, owner: Owner) -> int:
        """Return the number of the owner's conversations, archived ones included."""
        ...

    async def stored_bytes(self, owner: Owner) -> int:
        """Return the bytes that all conversations of the owner are counted for: the sum of their `size`."""
        ...

    async def change(
        self,
        owner: Owner,
        conversation_id: str,
        changes: Mapping[str, Any],
        increments: Mapping[str, int] | None = None,
    ) -> Conversation | None:
        """Set fields of a conversation and add `increments`; return the changed record, `None` if there is none."""
        ...

    async def set_initial_title(self, owner: Owner, conversation_id: str, title: str) -> bool:
        """Set a conversation's title if it has none; return whether the title was set."""
        ...

    async def add_terms(self, owner: Owner, conversation_id: str, terms: Collection[str]) -> None:
        """Add search terms to a conversation, by which `search` finds it; earlier terms stay."""
        ...

    async def remove(self, owner: Owner, conversation_id: str) -> bool:
        """Delete a conversation with its messages and share link; return false if the owner has none with this id."""
        ...


class MessageStore(Protocol):
    """Store of messages."""

    async def add(self, owner: Owner, messages: Sequence[Message], writer: str = "", until: float = 0.0) -> None:
        """Store new messages durably; open answers are leased to the process `writer` until `until` (Unix seconds)."""
        ...

    async def add_missing(self, owner: Owner, messages: Sequence[Message]) -> None:
        """Store finished messages durably; existing ones are left unchanged."""
        ...

    async def remove_all(self, owner: Owner, conversation_ids: Collection[str]) -> None:
        """Delete all messages of the owner's conversations with these ids."""
        ...

    async def all(self, owner: Owner, conversation_id: str) -> list[Message]:
        """Return all messages of a conversation, oldest first; attachments are without their text."""
        ...

    async def all_with_files(self, owner: Owner, conversation_ids: Collection[str]) -> list[Message]:
        """Return all messages of the conversations with these ids, attachments with their text, in any order."""
        ...

    async def find_many(self, owner: Owner, conversation_id: str, message_ids: Collection[str]) -> list[Message]:
        """Return the messages of a conversation that have these ids, attachments with their text, in any order."""
        ...

    async def find(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        """Return one message of a conversation, attachments without their text; `None` if it does not exist."""
        ...

    async def with_open_answers(self, owner: Owner, conversation_ids: Collection[str]) -> set[str]:
        """Return the ids of those of these conversations in which an answer is being written, by any process."""
        ...

    async def matching_texts(
        self, owner: Owner, conversation_ids: Collection[str], pattern: str
    ) -> list[tuple[str, str]]:
        """Return (conversation id, text) of messages that match the regular expression `pattern`; only some if many."""
        ...

    async def request_stop(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        """Set an answer's stop flag, which its writer polls; return the message, `None` if it does not exist."""
        ...


class ShareStore(Protocol):
    """Store of share links, by which people without an account read conversations; tokens are stored as digests."""

    async def put(self, owner: Owner, conversation_id: str, digest: bytes, joined: float) -> None:
        """Store the digest of the token of a conversation's share link; an earlier link becomes invalid.

        `joined`: when the owner's membership began, in Unix seconds.
        """
        ...

    async def remove(self, owner: Owner, conversation_id: str) -> None:
        """Delete a conversation's share link; no effect if it has none."""
        ...

    async def find(self, digest: bytes) -> tuple[Owner, str, float | None] | None:
        """Return owner, conversation id and membership start of the share link with this token digest; `None` if none.

        The start (Unix seconds; `None`: not stored) is of when the link was made; the link is void if it differs now.
        """
        ...


@dataclass(frozen=True)
class Claim:
    """An unfinished answer that `AnswerStore.claim` leased to a writer process, with its owner."""

    owner: Owner
    message: Message


@dataclass(frozen=True)
class Progress:
    """Fields of an answer in progress to be stored; `None` leaves a field unchanged."""

    text: str | None = None
    state: State | None = None
    attempt: int | None = None
    usage: TokenUsage | None = None
    cost: int | None = None
    first_token_seconds: float | None = None
    waiting: QueueStatus | None = None
    steps: Sequence[Step] | None = None


class AnswerStore(Protocol):
    """Store of answers in progress, each leased to one process, which renews its lease."""

    async def claim(self, message_id: str, writer: str, until: float, now: float) -> Claim | None:
        """Lease an open answer to the process `writer` until `until`, if its lease ended before `now`; else `None`."""
        ...

    async def abandoned(self, now: float, limit: int) -> list[str]:
        """Return ids of at most `limit` open answers, of all owners, whose lease ended before `now` (Unix seconds)."""
        ...

    async def renew(self, message_id: str, writer: str, until: float, progress: Progress) -> bool | None:
        """Extend an answer's lease, store its progress; return its stop flag, `None` if `writer` lost the lease."""
        ...

    async def release(self, message_id: str, writer: str) -> None:
        """End the lease that `writer` holds on an answer, so that another process can continue it at once."""
        ...

    async def finish(self, message: Message, writer: str) -> bool:
        """Store a finished answer durably and end its lease; return false, and store nothing, if the lease was lost."""
        ...
