"""Chat messages by role. Content is a string or a list of parts; only text parts are supported."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel

MAX_PARTS = 1024
_UNSUPPORTED_PARTS = ("image_url", "input_audio", "file", "input_text", "input_image", "video_url", "audio_url")

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
        if self.type in _UNSUPPORTED_PARTS:
            raise PydanticCustomError("unsupported_parameter", "content parts other than text are not supported yet")
        if self.type not in ("text", "refusal"):
            raise PydanticCustomError("invalid_value", "the type of a content part must be 'text'")
        if (self.text if self.type == "text" else self.refusal) is None:
            raise PydanticCustomError("invalid_value", "a content part must have the field that its type names")
        return self

    @property
    def plain(self) -> str:
        """The part's text; for a refusal, the refusal's text."""
        return (self.text if self.type == "text" else self.refusal) or ""


Content = str | Annotated[list[ContentPart], Field(min_length=1, max_length=MAX_PARTS)]


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
    content: Content
    name: Name | None = None


class AssistantMessage(ApiModel):
    """An assistant's message: content, a refusal or tool calls, at least one of them."""

    role: Literal["assistant"]
    content: Content | None = None
    refusal: str | None = None
    name: Name | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=128)] | None = None
    function_call: FunctionCall | None = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.content is None and self.refusal is None and not self.tool_calls and self.function_call is None:
            raise PydanticCustomError(
                "missing_content", "an assistant's message needs 'content' unless it has 'tool_calls'"
            )
        return self


class ToolMessage(ApiModel):
    """The result of a tool call."""

    role: Literal["tool"]
    content: Content
    tool_call_id: Annotated[str, StringConstraints(min_length=1, max_length=256)]


class FunctionMessage(ApiModel):
    """The result of a function call, in the deprecated form."""

    role: Literal["function"]
    content: Content | None
    name: Name


Message = Annotated[
    InstructionMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage, Field(discriminator="role")
]


def text_of(content: str | list[ContentPart] | None) -> str | None:
    """Return a message's content as one string, its text parts joined by newlines as vLLM does; `None` stays."""
    return content if content is None or isinstance(content, str) else "\n".join(part.plain for part in content)


def to_wire(message: Message) -> dict[str, Any]:
    """Return a message as chat templates read it: OpenAI's fields without nulls, content as a string.

    Function calls and results in the deprecated form become tool calls and tool messages.
    """
    fields = message.model_dump(exclude_none=True)
    fields["content"] = text_of(message.content) or ""
    if isinstance(message, FunctionMessage):
        return {"role": "tool", **_without(fields, "role"), "tool_call_id": _legacy_call_id(message.name)}
    if isinstance(message, AssistantMessage):
        fields["content"] = fields["content"] or message.refusal or ""
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
    """Raise unless tool messages answer the calls of the assistant's message before them, each call once.

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
