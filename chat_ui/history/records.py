"""Conversations, messages and presets as they are stored, and the ports to where that is. Knows no MongoDB.

Everything belongs to an `Owner`, and no method of a port finds anything without one: what is somebody else's is not
there. (A share's token and the list of abandoned answers are the two exceptions, and have ports of their own.) Times
are Unix seconds. Each method raises `StoreUnavailable` when the store does not answer in time; each may be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True)
class Owner:
    """Whose something is: a person's, within an organisation (who pays)."""

    organisation: str
    user: str


@dataclass(frozen=True)
class ModelSettings:
    """How a model is asked; `None`: as the model or the operator has it."""

    model: str = ""
    system: str = ""
    temperature: float | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True)
class Attachment:
    """A text file of a question."""

    name: str
    text: str = field(repr=False)
    size: int
    """Bytes of UTF-8."""


class Role(StrEnum):
    """Who says it."""

    USER = "user"
    ASSISTANT = "assistant"


class State(StrEnum):
    """Where a message is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """Whether it is still being written."""
        return self in (State.WAITING, State.RUNNING)


@dataclass(frozen=True)
class TokenUsage:
    """What an answer used; cached tokens are part of the prompt's."""

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
    """Why an answer is not whole, in words for people."""

    code: str
    message: str
    retry_after: int | None = None


@dataclass(frozen=True)
class Waiting:
    """Its place in line: how many are before it and for how long about, as far as that is known."""

    position: int | None
    seconds: float | None


@dataclass(frozen=True)
class Message:
    """A question or an answer. `settings` and what follows is about answers."""

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
    """That it is billed to."""
    error: AnswerError | None = None
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    cost: int | None = None
    """Nano-USD."""
    seconds: float | None = None
    first_token_seconds: float | None = None
    attempt: int = 0
    """How often the text began again."""
    waiting: Waiting | None = None
    """While it waits: what its writer has said of that, some seconds ago at most."""

    @property
    def model(self) -> str | None:
        """Who answered."""
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
    """Bytes of all messages and attachments, about."""

    @property
    def order(self) -> str:
        """Sorts conversations, the greatest first: pinned ones, then the latest."""
        return f"{int(self.pinned)}{int(self.updated * 1000):014d}{self.id}"


@dataclass(frozen=True)
class Wanted:
    """Which conversations of a list. `before`: only those whose `order` is less."""

    archived: bool
    limit: int
    before: str | None = None


@dataclass(frozen=True)
class Found:
    """A conversation that a search has found."""

    id: str
    order: str


@dataclass(frozen=True)
class Preset:
    """Settings with a name."""

    id: str
    name: str
    settings: ModelSettings


class ConversationStore(Protocol):
    """Where conversations are."""

    async def add(self, owner: Owner, conversation: Conversation) -> None:
        """Store a new one, durably."""
        ...

    async def bring(self, owner: Owner, filed: Mapping[Conversation, Collection[str]]) -> None:
        """Store many, durably, each with the terms that it is found by; those that are there already stay."""
        ...

    async def find(self, owner: Owner, conversation_id: str) -> Conversation | None:
        """One of the owner's."""
        ...

    async def page(self, owner: Owner, wanted: Wanted) -> list[Conversation]:
        """Some of the owner's, greatest `order` first."""
        ...

    async def some(self, owner: Owner, conversation_ids: Collection[str]) -> list[Conversation]:
        """Those of these that are the owner's, in any order."""
        ...

    async def search(self, owner: Owner, words: Sequence[str], *, archived: bool) -> list[Found]:
        """Those that have all words (the last one may be the beginning of one), greatest `order` first; up to
        `bounds.MOST_FOUND`. Words are terms (`terms.py`), one at least.
        """
        ...

    async def count(self, owner: Owner) -> int:
        """How many the owner has, archived ones too."""
        ...

    async def change(
        self, owner: Owner, conversation_id: str, changes: Mapping[str, Any], grows: Mapping[str, int] | None = None
    ) -> Conversation | None:
        """Set fields by name, and let `messages` and `size` grow; the conversation then, `None` if there is none."""
        ...

    async def set_first_title(self, owner: Owner, conversation_id: str, title: str) -> bool:
        """Give it a title unless it has one."""
        ...

    async def add_terms(self, owner: Owner, conversation_id: str, terms: Collection[str]) -> None:
        """What it can be found by, besides what it could until now."""
        ...

    async def remove(self, owner: Owner, conversation_id: str) -> bool:
        """Delete it with its messages; false if there was none."""
        ...


class MessageStore(Protocol):
    """Where messages are."""

    async def add(self, owner: Owner, messages: Sequence[Message], writer: str = "", until: float = 0.0) -> None:
        """Store new ones, durably; those that are open are `writer`'s to write, who counts as alive `until` then."""
        ...

    async def bring(self, owner: Owner, messages: Sequence[Message]) -> None:
        """Store many that have ended, durably; those that are there already stay."""
        ...

    async def discard(self, owner: Owner, conversation_ids: Collection[str]) -> None:
        """Delete all of these conversations."""
        ...

    async def all(self, owner: Owner, conversation_id: str) -> list[Message]:
        """Those of a conversation, in the order in which they were written; attachments have no text."""
        ...

    async def whole(self, owner: Owner, conversation_ids: Collection[str]) -> list[Message]:
        """Those of these conversations, with the text of their files, in any order."""
        ...

    async def branch(self, owner: Owner, conversation_id: str, message_ids: Collection[str]) -> list[Message]:
        """These, whole, in any order."""
        ...

    async def find(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        """One of them; attachments have no text."""
        ...

    async def open_in(self, owner: Owner, conversation_ids: Collection[str]) -> set[str]:
        """Those of these conversations in which an answer is being written."""
        ...

    async def containing(self, owner: Owner, conversation_ids: Collection[str], pattern: str) -> list[tuple[str, str]]:
        """Conversations' ids with texts of theirs that match a regular expression, some for each."""
        ...

    async def request_stop(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        """Ask whoever writes an answer to stop; the message, `None` if there is none."""
        ...


class PresetStore(Protocol):
    """Where presets are."""

    async def add(self, owner: Owner, preset: Preset) -> None:
        """Store a new one, durably."""
        ...

    async def all(self, owner: Owner) -> list[Preset]:
        """The owner's, by name."""
        ...

    async def change(self, owner: Owner, preset_id: str, changes: Mapping[str, Any]) -> Preset | None:
        """Set `name` or `settings`; the preset as it is then, `None` if there is none."""
        ...

    async def remove(self, owner: Owner, preset_id: str) -> bool:
        """Delete it; false if there was none."""
        ...


class ShareStore(Protocol):
    """Links that strangers may read conversations by; the token itself is not stored."""

    async def put(self, owner: Owner, conversation_id: str, digest: bytes) -> None:
        """Make this the one link of a conversation; an earlier one is void."""
        ...

    async def remove(self, owner: Owner, conversation_id: str) -> None:
        """Make it void."""
        ...

    async def find(self, digest: bytes) -> tuple[Owner, str] | None:
        """Whose conversation a link is for, and its id."""
        ...


@dataclass(frozen=True)
class Claim:
    """An answer that somebody is to write now, and whose it is."""

    owner: Owner
    message: Message


@dataclass(frozen=True)
class Progress:
    """How far an answer is. What is `None` does not change."""

    text: str | None = None
    state: State | None = None
    attempt: int | None = None
    usage: TokenUsage | None = None
    cost: int | None = None
    first_token_seconds: float | None = None
    waiting: Waiting | None = None


class AnswerStore(Protocol):
    """Answers that are being written, each by one process at a time, which says again and again that it lives."""

    async def claim(self, message_id: str, writer: str, until: float, now: float) -> Claim | None:
        """Make an open answer this writer's, if nobody alive has it."""
        ...

    async def abandoned(self, now: float, limit: int) -> list[str]:
        """Ids of open answers that nobody alive writes."""
        ...

    async def keep(self, message_id: str, writer: str, until: float, progress: Progress) -> bool | None:
        """Say that the writer is alive and how far it is; whether it is to stop. `None`: it is not its any more."""
        ...

    async def release(self, message_id: str, writer: str) -> None:
        """Let somebody else go on at once."""
        ...

    async def finish(self, message: Message, writer: str) -> bool:
        """Store the end of an answer, durably; false if it is not the writer's any more."""
        ...
