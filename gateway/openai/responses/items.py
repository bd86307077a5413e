"""Input items of a response: messages, tool calls and their outputs, reasoning, images, references to stored items.

Source: `InputItem`, `EasyInputMessage`, `Item` of OpenAI's specification.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored
from gateway.openai.messages import MAX_PARTS

MAX_ITEMS = 4096
"""Most items of one request's input."""
ItemId = Annotated[str, StringConstraints(min_length=1, max_length=256)]
CallId = Annotated[str, StringConstraints(min_length=1, max_length=256)]
ToolItemName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
ItemStatus = Literal["in_progress", "completed", "incomplete"]

_FIELDS_OF_PART = {
    "input_text": ("text",),
    "output_text": ("text",),
    "refusal": ("refusal",),
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_id", "file_data"),
}
"""The fields of which one has the content of a part, by the part's type."""


class InputPart(ApiModel):
    """A part of an item's content: text, an image, a file, or in an assistant's message its text or refusal."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: Annotated[str, Field(min_length=1)] | None = None
    detail: Ignored[Literal["auto", "low", "high", "original"] | None] = None
    """The model's own image processor decides how many tokens an image has."""
    file_id: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Id of a file of the project: an image, or a file whose text becomes a part of the prompt."""
    file_data: Annotated[str, Field(min_length=1)] | None = None
    """Content of a file as a data URL with base64, or as base64 alone."""
    filename: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    """Name of the file, which the model reads too; default: the name that the file of the project has."""
    file_url: str | None = None
    """Refused: nothing is fetched from other addresses."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        if (fields := _FIELDS_OF_PART.get(self.type)) is None:
            raise PydanticCustomError("unsupported_parameter", "content parts of this type are not supported")
        if self.file_url is not None:
            raise PydanticCustomError("unsupported_parameter", "files are not fetched: send 'file_data' or 'file_id'")
        if sum(getattr(self, field) is not None for field in fields) != 1:
            named = " or ".join(f"'{field}'" for field in fields)
            message = f"a part of this type needs {named}{', not both' * (len(fields) - 1)}"
            raise PydanticCustomError("missing_content", "{message}", {"message": message})
        return self


Parts = Annotated[list[InputPart], Field(max_length=MAX_PARTS)]


class MessageItem(ApiModel):
    """A message; `output_text` and `refusal` are parts of the assistant's, images and files of the user's."""

    type: Literal["message"] | None = None
    id: ItemId | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Parts
    status: ItemStatus | None = None

    @model_validator(mode="after")
    def _parts_of_role(self) -> Self:
        kinds = set() if isinstance(self.content, str) else {part.type for part in self.content}
        if kinds & {"input_image", "input_file"} and self.role != "user":
            raise PydanticCustomError("invalid_value", "only messages with the role 'user' can have images or files")
        if kinds & {"output_text", "refusal"} and self.role != "assistant":
            raise PydanticCustomError("invalid_value", "only messages with the role 'assistant' can have outputs")
        return self


class FunctionCallItem(ApiModel):
    """A function call of the assistant; its output follows as `function_call_output` with the same `call_id`."""

    type: Literal["function_call"]
    id: ItemId | None = None
    call_id: CallId
    name: ToolItemName
    arguments: str
    status: ItemStatus | None = None


class CustomToolCallItem(ApiModel):
    """A call of a custom tool; its output follows as `custom_tool_call_output` with the same `call_id`."""

    type: Literal["custom_tool_call"]
    id: ItemId | None = None
    call_id: CallId
    name: ToolItemName
    input: str
    status: ItemStatus | None = None


class CallOutputItem(ApiModel):
    """The output of a function or a custom tool: a string, or parts that are texts, images and files."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    id: ItemId | None = None
    call_id: CallId
    output: str | Parts
    status: ItemStatus | None = None

    @model_validator(mode="after")
    def _has_inputs(self) -> Self:
        kinds = set() if isinstance(self.output, str) else {part.type for part in self.output}
        if not kinds <= {"input_text", "input_image", "input_file"}:
            message = "outputs of tools have 'input_text', 'input_image' and 'input_file' parts only"
            raise PydanticCustomError("unsupported_parameter", message)
        return self


class ReasoningPart(ApiModel):
    """A part of a reasoning item: its text (`reasoning_text`) or summary (`summary_text`)."""

    type: Literal["reasoning_text", "summary_text"]
    text: str


class ReasoningItem(ApiModel):
    """Reasoning of an earlier answer, which a client sends back."""

    type: Literal["reasoning"]
    id: ItemId | None = None
    summary: Annotated[list[ReasoningPart], Field(max_length=MAX_PARTS)] | None = None
    content: Annotated[list[ReasoningPart], Field(max_length=MAX_PARTS)] | None = None
    encrypted_content: Annotated[str, Field(min_length=1)] | None = None
    """The reasoning's text, encrypted by this installation; takes precedence over `content` and `summary`."""
    status: ItemStatus | None = None

    @property
    def text(self) -> str:
        """Text of the reasoning, or of its summary where the item has no other."""
        return "\n".join(part.text for part in self.content or self.summary or ())


class ImageGenerationCallItem(ApiModel):
    """An image that an assistant drew for an earlier response; no model reads it."""

    type: Literal["image_generation_call"]
    id: ItemId | None = None
    result: str | None = None
    status: Literal["in_progress", "generating", "completed", "failed"] | None = None


class FileSearchCallItem(ApiModel):
    """A file search of an earlier answer, which a client sends back; the model does not see it again."""

    type: Literal["file_search_call"]
    id: ItemId | None = None
    queries: Annotated[list[str], Field(max_length=MAX_PARTS)] | None = None
    results: Annotated[list[dict[str, Any]], Field(max_length=MAX_PARTS)] | None = None
    status: Literal["in_progress", "searching", "completed", "incomplete", "failed"] | None = None


class CompactionItem(ApiModel):
    """A context as `POST /v1/responses/compact` has compacted it, encrypted by this installation."""

    type: Literal["compaction"]
    id: ItemId | None = None
    encrypted_content: Annotated[str, Field(min_length=1)]


class ItemReference(ApiModel):
    """A reference to an item of a stored response by its id."""

    type: Literal["item_reference"] | None = None
    id: ItemId


def _kind(value: Any) -> str | None:
    """Return the tag of the item model for a JSON value: its `type`, or what follows from its fields."""
    fields = value if isinstance(value, dict) else {"type": getattr(value, "type", None), "role": None}
    kind = fields.get("type")
    if kind is None:
        return "message" if "role" in fields else "item_reference"
    return kind if isinstance(kind, str) else None


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[CallOutputItem, Tag("function_call_output")]
    | Annotated[CustomToolCallItem, Tag("custom_tool_call")]
    | Annotated[CallOutputItem, Tag("custom_tool_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")]
    | Annotated[ImageGenerationCallItem, Tag("image_generation_call")]
    | Annotated[CompactionItem, Tag("compaction")]
    | Annotated[FileSearchCallItem, Tag("file_search_call")]
    | Annotated[ItemReference, Tag("item_reference")],
    Discriminator(
        _kind,
        custom_error_type="unsupported_parameter",
        custom_error_message="input items of this type are not supported",
    ),
]
InputItems = Annotated[list[InputItem], Field(max_length=MAX_ITEMS)]
