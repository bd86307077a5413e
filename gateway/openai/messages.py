"""Models of chat messages by role, with text, images and files; checks them and converts them to the form in jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored
from stored_objects.files.files import FILE_PREFIX

MAX_PARTS = 1024
_UNSUPPORTED_PARTS = ("input_audio", "input_text", "input_image", "video_url", "audio_url")

Name = Annotated[str, StringConstraints(max_length=256)]


class ContentPart(ApiModel):
    """A part of a message's content: text or, in an assistant's message, a refusal."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"type": {"const": kind}, kind: {"type": "string"}}, "required": [kind]}
                for kind in ("text", "refusal")
            ]
        }
    )

    type: str
    text: str | None = None
    refusal: str | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        _check_text_part(self)
        return self

    @property
    def plain(self) -> str:
        """Text of the content part; for a refusal, the refusal's text."""
        return (self.text if self.type == "text" else self.refusal) or ""


def _check_text_part(part: ContentPart) -> None:
    if part.type in _UNSUPPORTED_PARTS:
        raise PydanticCustomError("unsupported_parameter", "content parts of this type are not supported")
    if part.type in ("image_url", "file"):
        raise PydanticCustomError(
            "unsupported_parameter", "only messages with the roles 'user' and 'tool' can have images or files"
        )
    if part.type not in ("text", "refusal"):
        raise PydanticCustomError("invalid_value", "the type of a content part must be 'text'")
    if (part.text if part.type == "text" else part.refusal) is None:
        raise PydanticCustomError("invalid_value", "a content part must have the field that its type names")


class ImageUrl(ApiModel):
    """An image as a data URL, a signed address of this platform or a file's id; other addresses are never fetched."""

    url: Annotated[str, Field(min_length=1)]
    detail: Ignored[Literal["auto", "low", "high", "original"] | None] = None
    """The model's own image processor decides how many tokens an image has."""


class FileContent(ApiModel):
    """A file of the project by its id, or the content of a file in base64; its text becomes a part of the prompt."""

    file_id: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    file_data: Annotated[str, Field(min_length=1)] | None = None
    """A data URL with base64, or base64 alone."""
    filename: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    """Name of the file, which the model reads too; default: the name that the file of the project has."""
    detail: Ignored[Literal["auto", "low", "high"] | None] = None
    """The text of a file has no resolution."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.file_id is None) is (self.file_data is None):
            raise PydanticCustomError("missing_content", "a file needs either 'file_id' or 'file_data'")
        return self


class UserPart(ContentPart):
    """A part of a user's or tool's message: text, an image or a file."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"type": {"const": "text"}, "text": {"type": "string"}}, "required": ["text"]},
                {"properties": {"type": {"const": "refusal"}, "refusal": {"type": "string"}}, "required": ["refusal"]},
                {
                    "properties": {"type": {"const": "image_url"}, "image_url": {"type": "object"}},
                    "required": ["image_url"],
                },
                {"properties": {"type": {"const": "file"}, "file": {"type": "object"}}, "required": ["file"]},
            ]
        }
    )

    image_url: ImageUrl | None = None
    file: FileContent | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.type not in ("image_url", "file"):
            _check_text_part(self)
        elif (self.image_url if self.type == "image_url" else self.file) is None:
            raise PydanticCustomError("invalid_value", "a content part must have the field that its type names")
        return self


Content = str | Annotated[list[ContentPart], Field(min_length=1, max_length=MAX_PARTS)]
UserContent = str | Annotated[list[UserPart], Field(min_length=1, max_length=MAX_PARTS)]


class FunctionCall(ApiModel):
    """A function call of the assistant. `arguments` is JSON as the model wrote it, so it may be invalid."""

    name: Name
    arguments: str


class ToolCall(ApiModel):
    """A tool call of the assistant, with the id that its tool message refers to."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    type: Literal["function"] = "function"
    function: FunctionCall


class InstructionMessage(ApiModel):
    """A system or developer message."""

    role: Literal["system", "developer"]
    content: Content
    name: Name | None = None


class UserMessage(ApiModel):
    """A user's message."""

    role: Literal["user"]
    content: UserContent
    name: Name | None = None


class AssistantMessage(ApiModel):
    """An assistant's message: content, a refusal or tool calls, at least one of them.

    `reasoning_content` (or `reasoning`) is that of an earlier answer, passed to chat templates that read it.
    """

    role: Literal["assistant"]
    content: Content | None = None
    refusal: str | None = None
    name: Name | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=128)] | None = None
    function_call: FunctionCall | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.content is None and self.refusal is None and not self.tool_calls and self.function_call is None:
            raise PydanticCustomError(
                "missing_content", "an assistant's message needs 'content' unless it has 'tool_calls'"
            )
        return self


class ToolMessage(ApiModel):
    """The result of a tool call. Images and files in it are an extension of chat completions."""

    role: Literal["tool"]
    content: UserContent
    tool_call_id: Annotated[str, StringConstraints(min_length=1, max_length=256)]


class FunctionMessage(ApiModel):
    """The result of a function call, in the deprecated form."""

    role: Literal["function"]
    content: Content | None
    name: Name


Message = Annotated[
    InstructionMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage, Field(discriminator="role")
]


def text_of(content: str | Sequence[ContentPart] | None) -> str | None:
    """Return a chat message's content as one string: a string or `None` unchanged, text parts joined by newlines."""
    if content is None or isinstance(content, str):
        return content
    return "\n".join(part.plain for part in content if part.type != "image_url")


def user_parts(message: Message) -> Sequence[UserPart]:
    """Return the parts of a message that can be images and files: those of a user's or tool's message."""
    if not isinstance(message, UserMessage | ToolMessage) or isinstance(message.content, str):
        return ()
    return message.content


def image_urls(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Yield the images of a conversation in order: the path of the request field, for errors, and the URL."""
    for number, message in enumerate(messages):
        for place, part in enumerate(user_parts(message)):
            if part.type == "image_url" and part.image_url is not None:
                yield f"messages[{number}].content[{place}].image_url", part.image_url.url


def file_ids(messages: Iterable[Message]) -> list[str]:
    """Return the ids of the project's files that a conversation has, images too, each once."""
    files = [part.file for message in messages for part in user_parts(message) if part.type == "file"]
    named = [file.file_id for file in files if file is not None and file.file_id is not None]
    images = [url for _, url in image_urls(messages) if url.startswith(FILE_PREFIX)]
    return list(dict.fromkeys([*named, *images]))


def _content_to_wire(message: Message) -> str | list[dict[str, Any]]:
    """Return a message's content: a string, or with images the parts in order, neighbouring texts joined."""
    if not any(image_urls([message])):
        return text_of(message.content) or ""
    parts: list[dict[str, Any]] = []
    for part in user_parts(message):
        if part.type == "image_url":
            parts.append({"type": "image"})
        elif parts and parts[-1]["type"] == "text":
            parts[-1] = {"type": "text", "text": f"{parts[-1]['text']}\n{part.plain}"}
        else:
            parts.append({"type": "text", "text": part.plain})
    return parts


def to_wire(message: Message) -> dict[str, Any]:
    """Convert a chat message to the form in jobs that chat templates read: OpenAI's fields without nulls.

    Function calls and results in the deprecated form become tool calls and tool messages.
    """
    fields = message.model_dump(exclude_none=True, exclude={"content"})
    fields["content"] = _content_to_wire(message)
    if isinstance(message, FunctionMessage):
        return {"role": "tool", **_without(fields, "role"), "tool_call_id": _legacy_call_id(message.name)}
    if isinstance(message, AssistantMessage):
        fields["content"] = fields["content"] or message.refusal or ""
        if reasoning := fields.pop("reasoning", None):
            fields.setdefault("reasoning_content", reasoning)
        if message.function_call and not message.tool_calls:
            call_id = _legacy_call_id(message.function_call.name)
            call = {"id": call_id, "type": "function", "function": fields["function_call"]}
            fields["tool_calls"] = [call]
        return _without(fields, "function_call", *([] if fields.get("tool_calls") else ["tool_calls"]))
    return fields


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _legacy_call_id(name: str) -> str:
    """Return the id of a function call in the deprecated form, where results are matched by function name."""
    return f"call_{name}"


def check_tool_results(messages: list[Message]) -> None:
    """Check that tool messages answer the calls of the assistant's message before them, each call once.

    Raises:
        PydanticCustomError: A message is out of order, or a tool message is missing.
    """
    unanswered: set[str] = set()
    calls: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in calls:
                raise _order_error(index, "has a 'tool_call_id' that no 'tool_calls' right before it has")
            unanswered.discard(message.tool_call_id)
            continue
        if unanswered:
            raise _order_error(index, "comes before each of the 'tool_calls' has its tool message")
        tool_calls = message.tool_calls if isinstance(message, AssistantMessage) else None
        calls = {call.id for call in tool_calls or []}
        unanswered = set(calls)
    if unanswered:
        raise _order_error(len(messages) - 1, "leaves 'tool_calls' without their tool messages")


def _order_error(index: int, what: str) -> PydanticCustomError:
    return PydanticCustomError("invalid_value", f"messages[{index}] {what}")
