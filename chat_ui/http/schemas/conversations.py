"""Request and response models of conversations, their message trees, list rows and answer events."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from fastapi import Depends
from pydantic import Field, StringConstraints, model_validator

from chat_ui.history.limits import (
    MAX_ATTACHMENTS,
    MAX_QUESTION_CHARS,
    MAX_SYSTEM_CHARS,
    MAX_TITLE_CHARS,
    MAX_TOKENS,
    MAX_TOOLS_OFF,
    MAX_VECTOR_STORES,
)
from chat_ui.http.request_bodies import Body, body_of
from chat_ui.http.schemas.base import Schema
from router.messages import MAX_PATHS, SearchMethod
from stored_objects.images.prompt_limits import MAX_IMAGES

ModelName = Annotated[str, StringConstraints(max_length=200)]
ToolName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Consent = Annotated[str, StringConstraints(min_length=1, max_length=256)]
VectorStoreId = Annotated[str, StringConstraints(min_length=1, max_length=64)]
FileName = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Method = Literal["best_of_n", "weighted_best_of_n", "self_consistency", "beam_search", "dvts", "lookahead"]


class SearchSettings(Schema):
    """How answers are searched for, with names as in `test_time_compute` of `/v1/chat/completions`."""

    method: Method
    n: int | None
    """Number of paths; `null`: the method's default."""
    verifier: str
    """Name of the model that scores paths; empty for `self_consistency`."""


class SearchSettingsBody(Body):
    """How answers are searched for, with names as in `test_time_compute` of `/v1/chat/completions`."""

    method: Method
    n: Annotated[int, Field(ge=1, le=MAX_PATHS)] | None = None
    verifier: ModelName = ""
    """Name of the model that scores paths; required by all methods but `self_consistency`, which has none."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if SearchMethod(self.method).verified != (self.verifier != ""):
            raise ValueError("self_consistency has no verifier, and the other methods need one")
        return self


class ModelSettings(Schema):
    """Model, system prompt and sampling settings; `null` means the default of the model or operator."""

    model: str
    """Empty: no model is selected yet."""
    system: str
    temperature: float | None
    top_p: float | None
    repetition_penalty: float | None
    max_tokens: int | None
    tools_off: list[str]
    """Names of an assistant's tools that are switched off."""
    tools_allowed: list[str]
    """Consents to calls of tools that ask for it; each begins with the tool's name and `@`."""
    test_time_compute: SearchSettings | None
    """How answers are searched for, by models that search (`searches`)."""
    vector_stores: list[str]
    """Ids of the vector stores from whose passages questions are answered."""


class SettingsBody(Body):
    """Model, system prompt and sampling settings; a missing field is `null`."""

    model: ModelName = ""
    system: Annotated[str, StringConstraints(max_length=MAX_SYSTEM_CHARS)] = ""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    tools_off: Annotated[list[ToolName], Field(max_length=MAX_TOOLS_OFF)] = Field(default_factory=list)
    tools_allowed: Annotated[list[Consent], Field(max_length=MAX_TOOLS_OFF)] = Field(default_factory=list)
    test_time_compute: SearchSettingsBody | None = None
    vector_stores: Annotated[list[VectorStoreId], Field(max_length=MAX_VECTOR_STORES)] = Field(default_factory=list)


class Attachment(Schema):
    """A text file of a question. Its text goes to the model and is not returned here."""

    name: str
    size: int
    """Bytes of UTF-8."""


class AttachedImage(Schema):
    """An image of a question."""

    name: str
    size: int
    """Bytes of the file."""
    url: str
    """Signed address, valid for an hour."""


class TokenUsage(Schema):
    """Tokens that an answer used."""

    prompt_tokens: int
    cached_tokens: int
    """Part of `prompt_tokens`."""
    completion_tokens: int


class AnswerError(Schema):
    """Why an answer is incomplete. `retry_after`: seconds after which trying again may help."""

    code: str
    message: str
    retry_after: int | None


class Step(Schema):
    """What was done before the answer's text, such as a call of a tool or a search among several answers."""

    number: int
    """Number of the step within the answer."""
    kind: str
    """`rewrite`, `route`, `tool`, `summary` or `search`."""
    name: str
    """Name of the tool or model that the step uses, or the method of a search."""
    state: Literal["running", "done", "failed"]
    data: dict[str, Any]
    """Arguments, result or error of the step; untrusted, its form follows from `kind` and `data.result.type`."""


class Message(Schema):
    """A question or an answer. Fields that concern answers are `null` in questions."""

    id: str
    parent: str | None
    """Id of the preceding message; `null` for the first one."""
    role: Literal["user", "assistant"]
    text: str
    """The text so far, while an answer is being written."""
    created: float
    attachments: list[Attachment]
    images: list[AttachedImage]
    """Images of a question."""
    steps: list[Step]
    """Steps before the text, in order: of an assistant, or one for a whole search; empty for other answers."""
    model: str | None
    settings: ModelSettings | None
    """The settings that the model was called with."""
    state: Literal["waiting", "running", "done", "stopped", "failed"]
    """Questions are `done`."""
    error: AnswerError | None
    finish_reason: str | None
    """`stop`, or `length` if the answer was truncated."""
    usage: TokenUsage | None
    cost_nano: int | None = Field(validation_alias="cost")
    """Cost of the usage at the prices of the time of the request."""
    seconds: float | None
    """Time from the request to the end of the answer."""
    first_token_seconds: float | None


class ConversationRow(Schema):
    """A conversation in a list."""

    id: str
    title: str
    """Empty until the model or a person has given a title."""
    created: float
    updated: float
    """Time of the last question."""
    pinned: bool
    archived: bool
    shared: bool
    model: str
    """The model that was used last."""
    running: bool
    """Whether an answer is being written."""
    match: str | None
    """An excerpt around the search words."""


class ConversationPage(Schema):
    """A page of conversations: pinned ones first, then the newest."""

    conversations: list[ConversationRow]
    next: str | None
    """The `cursor` of the next page."""
    total: int | None
    """Number of search results, counted up to 1,000; `null` for lists."""


class Conversation(ConversationRow):
    """A conversation with the messages of all its branches."""

    settings: ModelSettings
    leaf: str | None
    """Id of the last message of the selected branch."""
    messages: list[Message]
    """Oldest first."""


class NewConversationBody(Body):
    """A new, empty conversation."""

    settings: SettingsBody = SettingsBody()


class ConversationBody(Body):
    """Changes of a conversation; missing fields stay unchanged."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=MAX_TITLE_CHARS)] | None = None
    pinned: bool | None = None
    archived: bool | None = None
    leaf: str | None = None
    settings: SettingsBody | None = None


class AttachmentBody(Body):
    """A text file to attach to a question."""

    name: FileName
    text: str


class ImageReferenceBody(Body):
    """An uploaded image to attach to a question."""

    blob: Annotated[str, StringConstraints(max_length=100)]
    """Id that the upload answered with."""
    name: FileName


class QuestionBody(Body):
    """A question after `parent`, or at the beginning. A second question with the same parent starts a branch."""

    parent: str | None = None
    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUESTION_CHARS)]
    attachments: Annotated[list[AttachmentBody], Field(max_length=MAX_ATTACHMENTS)] = Field(default_factory=list)
    images: Annotated[list[ImageReferenceBody], Field(max_length=MAX_IMAGES)] = Field(default_factory=list)
    attachments_of: str | None = None
    """Id of a question whose files and images are attached to this one too, as those of an edited question are."""
    settings: SettingsBody | None = None
    """Missing: the conversation's settings are used. Given: they become the conversation's settings."""


class RegenerateBody(Body):
    """Settings of another answer to the same question."""

    settings: SettingsBody | None = None
    allowed_once: Consent | None = None
    """Consent to a call of a tool in this answer alone; it does not become one of the conversation."""


class Asked(Schema):
    """A question, and the answer that is being written."""

    question: Message
    answer: Message


class AnswerBegun(Schema):
    """An answer that is being written."""

    answer: Message


class Stopping(Schema):
    """The answer while it is being stopped; its events report the end."""

    answer: Message


class ShareLink(Schema):
    """The token of a public link to the conversation's selected branch; it is not shown again."""

    token: str


class SharedConversation(Schema):
    """A conversation as shown by a share link: the selected branch, without data about its owner."""

    title: str
    created: float
    updated: float
    messages: list[Message]


class WaitingEvent(Schema):
    """`waiting`: queue position and estimated wait in seconds; `null`: not known."""

    position: int | None
    seconds: float | None


class TextEvent(Schema):
    """`text`: insert `text` after the first `at` UTF-16 code units (as JavaScript counts), and drop what followed."""

    at: int
    text: str


class StepEvent(Schema):
    """`step`: a step began or ended; it replaces the earlier step of the same number."""

    step: Step


class RestartEvent(Schema):
    """`restart`: drop steps and text; the answer is generated again."""


class MessageEvent(Schema):
    """`done` and `failed`: the final answer."""

    message: Message


class TitleEvent(Schema):
    """`title`: the conversation's new title."""

    title: str


class ChatEvents(Schema):
    """The events of an answer by name, each with the type of its data."""

    waiting: WaitingEvent
    step: StepEvent
    text: TextEvent
    restart: RestartEvent
    done: MessageEvent
    failed: MessageEvent
    title: TitleEvent


# Dependencies of routes: each reads and validates a request body.
NewConversationJson = Annotated[NewConversationBody, Depends(body_of(NewConversationBody))]
ConversationJson = Annotated[ConversationBody, Depends(body_of(ConversationBody))]
QuestionJson = Annotated[QuestionBody, Depends(body_of(QuestionBody))]
RegenerateJson = Annotated[RegenerateBody, Depends(body_of(RegenerateBody))]
