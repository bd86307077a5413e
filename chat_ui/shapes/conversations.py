"""Conversations: trees of messages, and what a list shows of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from chat_ui.bodies import Body
from chat_ui.history.bounds import (
    LONGEST_QUESTION,
    LONGEST_SYSTEM,
    LONGEST_TITLE,
    MOST_ATTACHMENTS,
    MOST_TOKENS,
)
from chat_ui.shapes.base import Shape

ModelName = Annotated[str, StringConstraints(max_length=200)]
FileName = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class ModelSettings(Shape):
    """How a model is asked. `null`: as the model or the operator has it."""

    model: str
    """Empty: none chosen yet."""
    system: str
    temperature: float | None
    top_p: float | None
    repetition_penalty: float | None
    max_tokens: int | None


class SettingsBody(Body):
    """How a model is to be asked; what is left out is `null`."""

    model: ModelName = ""
    system: Annotated[str, StringConstraints(max_length=LONGEST_SYSTEM)] = ""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None


class Attachment(Shape):
    """A text file that came with a question; its text is told to the model and not shown again."""

    name: str
    size: int
    """In bytes of UTF-8."""


class TokenUsage(Shape):
    """What an answer used."""

    prompt_tokens: int
    cached_tokens: int
    """Part of the prompt's."""
    completion_tokens: int


class AnswerError(Shape):
    """Why there is no whole answer. `retry_after`: seconds after which it may be asked again, if that helps."""

    code: str
    message: str
    retry_after: int | None


class Message(Shape):
    """A question or an answer. What is about answers is `null` in questions."""

    id: str
    parent: str | None
    """The message that it follows; `null`: it begins the conversation."""
    role: Literal["user", "assistant"]
    text: str
    """Of an answer that is being written: what there is by now."""
    created: float
    attachments: list[Attachment]
    model: str | None
    settings: ModelSettings | None
    """As the model was asked."""
    state: Literal["waiting", "running", "done", "stopped", "failed"]
    """A question is `done`."""
    error: AnswerError | None
    finish_reason: str | None
    """`stop`, or `length`: it was cut off."""
    usage: TokenUsage | None
    cost_nano: int | None
    """What the usage costs at the prices of when it was asked."""
    seconds: float | None
    """From when it was asked to its end."""
    first_token_seconds: float | None


class ConversationRow(Shape):
    """A conversation in a list."""

    id: str
    title: str
    """Empty until the model has made one, or a person has."""
    created: float
    updated: float
    """When something was last asked or answered."""
    pinned: bool
    archived: bool
    shared: bool
    model: str
    """That it was last asked of."""
    running: bool
    """Whether an answer is being written."""
    match: str | None
    """Where a search was found: some words around it."""


class ConversationPage(Shape):
    """Some conversations: pinned ones first, then the latest."""

    conversations: list[ConversationRow]
    next: str | None
    """The `cursor` of the next page."""
    total: int | None
    """How many a search has found, counted up to 1,000; `null` for a list, which nobody counts."""


class Conversation(ConversationRow):
    """A conversation, with all its branches."""

    settings: ModelSettings
    leaf: str | None
    """The last message of the branch that is shown."""
    messages: list[Message]
    """In the order in which they were written."""


class NewConversationBody(Body):
    """A new conversation; it is empty."""

    settings: SettingsBody = SettingsBody()


class ConversationBody(Body):
    """What is to change; what is left out stays."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TITLE)] | None = None
    pinned: bool | None = None
    archived: bool | None = None
    leaf: str | None = None
    settings: SettingsBody | None = None


class AttachmentBody(Body):
    """A text file."""

    name: FileName
    text: str


class QuestionBody(Body):
    """A question: below `parent`, or at the beginning. Asking below the parent of another question is a branch."""

    parent: str | None = None
    text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_QUESTION)]
    attachments: Annotated[list[AttachmentBody], Field(max_length=MOST_ATTACHMENTS)] = Field(default_factory=list)
    attachments_of: str | None = None
    """A question of this conversation whose files this one has too: an edited question keeps its own."""
    settings: SettingsBody | None = None
    """Left out: the conversation's. Given: they become the conversation's."""


class RegenerateBody(Body):
    """Another answer to the same question."""

    settings: SettingsBody | None = None


class Asked(Shape):
    """A question, and the answer that is being written."""

    question: Message
    answer: Message


class AnswerBegun(Shape):
    """An answer that is being written."""

    answer: Message


class Stopping(Shape):
    """The answer as it is while it is being stopped; the events say when it has."""

    answer: Message


class ShareLink(Shape):
    """The token of a link that anybody may read the conversation's shown branch by; told this once."""

    token: str


class SharedConversation(Shape):
    """A conversation as a stranger may read it: the branch that is shown, and nothing about the person."""

    title: str
    created: float
    updated: float
    messages: list[Message]


class WaitingEvent(Shape):
    """`waiting`: how many wait before it, and for how long about; `null`: not known."""

    position: int | None
    seconds: float | None


class TextEvent(Shape):
    """`text`: put `text` behind the first `at` characters (UTF-16 units, as JavaScript counts) of what is there."""

    at: int
    text: str


class RestartEvent(Shape):
    """`restart`: drop the text, the answer begins again."""


class MessageEvent(Shape):
    """`done` and `failed`: the answer as it is stored."""

    message: Message


class TitleEvent(Shape):
    """`title`: the conversation has one."""

    title: str


class ChatEvents(Shape):
    """The events of an answer, by name, and what `data` of each is."""

    waiting: WaitingEvent
    text: TextEvent
    restart: RestartEvent
    done: MessageEvent
    failed: MessageEvent
    title: TitleEvent
