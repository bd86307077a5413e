"""The messages of a conversation, by role. Content is a string or a list of parts; only text parts are offered yet."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel

MAX_PARTS = 1024
_LATER = ("image_url", "input_audio", "file", "input_text", "input_image", "video_url", "audio_url")

Name = Annotated[str, StringConstraints(max_length=256)]


class ContentPart(ApiModel):
    """A part of a message: text, or (of an assistant) a refusal."""

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
        if self.type in _LATER:
            raise PydanticCustomError("unsupported_parameter", "content parts other than text are not supported yet")
        if self.type not in ("text", "refusal"):
            raise PydanticCustomError("invalid_value", "the type of a content part must be 'text'")
        if (self.text if self.type == "text" else self.refusal) is None:
            raise PydanticCustomError("invalid_value", "a content part must have the field that its type names")
        return self

    @property
    def plain(self) -> str:
        """The text of the part."""
        return (self.text if self.type == "text" else self.refusal) or ""


Content = str | Annotated[list[ContentPart], Field(min_length=1, max_length=MAX_PARTS)]


class FunctionCall(ApiModel):
    """A call that an assistant made; `arguments` is JSON, or what the model took for it."""

    name: Name
    arguments: str


class ToolCall(ApiModel):
    """A call that an assistant made, with the id that its result refers to."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    type: Literal["function"] = "function"
    function: FunctionCall


class InstructionMessage(ApiModel):
    """What the application tells the model."""

    role: Literal["system", "developer"]
    content: Content
    name: Name | None = None


class UserMessage(ApiModel):
    """What the user says."""

    role: Literal["user"]
    content: Content
    name: Name | None = None


class AssistantMessage(ApiModel):
    """What the model said, or called. Says nothing only if it calls or refuses."""

    role: Literal["assistant"]
    content: Content | None = None
    refusal: str | None = None
    name: Name | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=128)] | None = None
    function_call: FunctionCall | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
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
    """The result of a call, in the deprecated form."""

    role: Literal["function"]
    content: Content | None
    name: Name


Message = Annotated[
    InstructionMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage, Field(discriminator="role")
]


def text_of(content: str | list[ContentPart] | None) -> str | None:
    """Content as one string; parts are joined by newlines, as vLLM does for templates that know strings only."""
    return content if content is None or isinstance(content, str) else "\n".join(part.plain for part in content)


def to_wire(message: Message) -> dict[str, Any]:
    """A message as the chat template reads it: OpenAI's shape, without nulls, content as a string.

    Calls and results in the deprecated form are given the form that templates know.
    """
    fields = message.model_dump(exclude_none=True)
    fields["content"] = text_of(message.content) or ""
    if isinstance(message, FunctionMessage):
        return {"role": "tool", **_without(fields, "role"), "tool_call_id": _old_id(message.name)}
    if isinstance(message, AssistantMessage):
        fields["content"] = fields["content"] or message.refusal or ""
        if message.function_call and not message.tool_calls:
            call = {"id": _old_id(message.function_call.name), "type": "function", "function": fields["function_call"]}
            fields["tool_calls"] = [call]
        return _without(fields, "function_call", *([] if fields.get("tool_calls") else ["tool_calls"]))
    return fields


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _old_id(name: str) -> str:
    """The deprecated form has no ids: a result belongs to the last call of its function."""
    return f"call_{name}"


def check_tool_results(messages: list[Message]) -> None:
    """Each tool message must answer a call of the assistant's message before it, and each call must be answered.

    Raises:
        PydanticCustomError: as OpenAI says it.
    """
    waiting: set[str] = set()
    calls: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in calls:
                raise _out_of_place(index, "has a 'tool_call_id' that no 'tool_calls' right before it has")
            waiting.discard(message.tool_call_id)
            continue
        if waiting:
            raise _out_of_place(index, "comes before each of the 'tool_calls' has its tool message")
        asked = message.tool_calls if isinstance(message, AssistantMessage) else None
        calls = {call.id for call in asked or []}
        waiting = set(calls)
    if waiting:
        raise _out_of_place(len(messages) - 1, "leaves 'tool_calls' without their tool messages")


def _out_of_place(index: int, what: str) -> PydanticCustomError:
    return PydanticCustomError("invalid_value", f"messages[{index}] {what}")
