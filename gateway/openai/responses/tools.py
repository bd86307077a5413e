"""Tools of a response and the choice among them, and their conversion to those of a chat completion.

Function tools are those of chat completions in another shape. A custom tool is offered to the model as a function with
one string, `input`, which the grammar of its format limits. A file search, which the gateway runs, is offered as a
function with one string, `query`. `image_generation` is the image tool of an assistant, whose images become output
items. Source: `Tool`, `ToolChoiceParam` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored
from gateway.openai.json_schema import MAX_BYTES, check_pattern
from gateway.openai.tools import MAX_TOOLS, ToolName
from gateway.openai.vector_store_search import MAX_RESULTS, RankingOptions, SearchFilter, check_filter
from router.messages import LARK_KEYWORD

MAX_DEFINITION = MAX_BYTES // 4
"""Most characters of a grammar, which a schema carries with escapes."""
Description = Annotated[str, StringConstraints(max_length=16_384)]


class ResponseFunction(ApiModel):
    """A function that the model may call; its fields are those of chat completions' `tools[].function`."""

    type: Literal["function"]
    name: ToolName
    description: Description | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    """Whether calls with `tool_choice: "auto"` must match the schema; forced calls always do."""

    def to_chat(self) -> dict[str, Any]:
        """Return the tool as a chat completion has it."""
        return {"type": "function", "function": self.model_dump(exclude={"type"}, exclude_none=True)}


class TextFormat(ApiModel):
    """Format of a custom tool's input: any text."""

    type: Literal["text"]


class GrammarFormat(ApiModel):
    """Format of a custom tool's input: a regular expression, or a context-free grammar in Lark's notation."""

    type: Literal["grammar"]
    syntax: Literal["regex", "lark"]
    definition: Annotated[str, StringConstraints(min_length=1, max_length=MAX_DEFINITION)]

    @field_validator("definition")
    @classmethod
    def _is_pattern(cls, definition: str, info: ValidationInfo) -> str:
        return check_pattern(definition) if info.data.get("syntax") == "regex" else definition

    def schema_keyword(self) -> dict[str, str]:
        """Return the keyword of the input's schema by which the worker limits it."""
        if self.syntax == "regex":
            return {"pattern": f"^(?:{self.definition})$"}
        return {LARK_KEYWORD: self.definition}


def _kind(value: Any) -> Any:
    return value.get("type") if isinstance(value, dict) else getattr(value, "type", None)


InputFormat = Annotated[
    Annotated[TextFormat, Tag("text")] | Annotated[GrammarFormat, Tag("grammar")],
    Discriminator(
        _kind,
        custom_error_type="invalid_value",
        custom_error_message="the format must be 'text' or 'grammar'",
    ),
]


class CustomTool(ApiModel):
    """A tool whose input is text instead of JSON."""

    type: Literal["custom"]
    name: ToolName
    description: Description | None = None
    format: InputFormat | None = None

    def to_chat(self) -> dict[str, Any]:
        """Return the function that stands for the tool in a chat completion: its only argument is the input."""
        text: dict[str, Any] = {"type": "string"}
        if isinstance(self.format, GrammarFormat):
            text |= self.format.schema_keyword()
        schema = {"type": "object", "properties": {CUSTOM_INPUT: text}, "required": [CUSTOM_INPUT]}
        closed = {**schema, "additionalProperties": False}
        described = {} if self.description is None else {"description": self.description}
        return {"type": "function", "function": {"name": self.name, **described, "parameters": closed, "strict": True}}


CUSTOM_INPUT = "input"
"""Name of the only argument of the function that stands for a custom tool."""
IMAGE_GENERATION = "image_generation"
"""Type of the tool that draws."""
IMAGE_TOOL = "image"
"""Name of the tool that draws among an assistant's own tools."""


class ImageGenerationTool(ApiModel):
    """The image tool of an assistant, which chooses the size and draws PNG files without partial images."""

    name: ClassVar[str] = IMAGE_GENERATION
    """Distinguishes the tool from functions, of which none may have its type as their name."""
    type: Literal["image_generation"]
    size: Literal["auto"] | None = None
    background: Literal["auto", "opaque"] | None = None
    output_format: Literal["png"] | None = None
    action: Literal["auto", "generate"] | None = None
    input_image_mask: None = None
    model: Ignored[Annotated[str, StringConstraints(max_length=256)] | None] = None
    quality: Ignored[Literal["low", "medium", "high", "auto"] | None] = None
    moderation: Ignored[Literal["auto", "low"] | None] = None
    input_fidelity: Ignored[Literal["high", "low"] | None] = None
    output_compression: Ignored[Annotated[int, Field(ge=0, le=100)] | None] = None
    partial_images: Ignored[Annotated[int, Field(ge=0, le=3)] | None] = None


FILE_SEARCH = "file_search"
"""Type of the tool that searches files, and name of the function that stands for it."""
SEARCH_QUERY = "query"
"""Name of the only argument of that function."""
MAX_STORES = 8
"""Most vector stores that one response searches."""


class FileSearchTool(ApiModel):
    """A search in vector stores of the project, which the gateway runs."""

    name: ClassVar[str] = FILE_SEARCH
    type: Literal["file_search"]
    vector_store_ids: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=64)]], Field(min_length=1, max_length=MAX_STORES)
    ]
    max_num_results: Annotated[int, Field(ge=1, le=MAX_RESULTS)] | None = None
    ranking_options: RankingOptions | None = None
    filters: SearchFilter | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.filters is not None:
            check_filter(self.filters)
        return self

    def to_chat(self) -> dict[str, Any]:
        """Return the function that stands for the tool in a chat completion: its only argument is the query."""
        query = {"type": "string", "description": "What to search for, as a question or keywords"}
        schema = {"type": "object", "properties": {SEARCH_QUERY: query}, "required": [SEARCH_QUERY]}
        closed = {**schema, "additionalProperties": False}
        described = {"name": FILE_SEARCH, "description": "Search the user's documents", "parameters": closed}
        return {"type": "function", "function": {**described, "strict": True}}


ResponseTool = Annotated[
    Annotated[ResponseFunction, Tag("function")]
    | Annotated[CustomTool, Tag("custom")]
    | Annotated[FileSearchTool, Tag(FILE_SEARCH)]
    | Annotated[ImageGenerationTool, Tag("image_generation")],
    Discriminator(
        _kind,
        custom_error_type="unsupported_parameter",
        custom_error_message=(
            "tools of this type are not available here: only 'function', 'custom', 'file_search' and "
            "'image_generation' tools are"
        ),
    ),
]
OfferedTool = ResponseFunction | CustomTool | FileSearchTool | ImageGenerationTool


def _distinct(tools: list[ResponseTool]) -> list[ResponseTool]:
    if len({tool.name for tool in tools}) != len(tools):
        raise PydanticCustomError("invalid_value", "two tools have the same name")
    if image_tool(tools) is not None and any(isinstance(tool, FileSearchTool) for tool in tools):
        raise PydanticCustomError("unsupported_parameter", "'image_generation' can't be combined with 'file_search'")
    return tools


ResponseTools = Annotated[list[ResponseTool], Field(max_length=MAX_TOOLS), AfterValidator(_distinct)]


class ChosenTool(ApiModel):
    """A tool by type and name, which the model must or may call."""

    type: Literal["function", "custom"]
    name: ToolName


class ChosenImageTool(ApiModel):
    """The tool `image_generation`, which is called with the last message as the description of the image."""

    type: Literal["image_generation"]


class ChosenFileSearch(ApiModel):
    """The choice of the file search: the gateway searches for the person's question before the model answers."""

    name: ClassVar[str] = FILE_SEARCH
    type: Literal["file_search"]


NamedTool = Annotated[
    Annotated[ChosenTool, Tag("function")]
    | Annotated[ChosenTool, Tag("custom")]
    | Annotated[ChosenFileSearch, Tag(FILE_SEARCH)],
    Discriminator(
        _kind,
        custom_error_type="unsupported_parameter",
        custom_error_message="choose among 'function', 'custom' and 'file_search' tools",
    ),
]


class AllowedResponseTools(ApiModel):
    """A restriction to some of the tools."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], Field(min_length=1, max_length=MAX_TOOLS)]


ToolModeName = Literal["none", "auto", "required"]
NamedChoice = Annotated[
    Annotated[ChosenTool, Tag("function")]
    | Annotated[ChosenTool, Tag("custom")]
    | Annotated[ChosenImageTool, Tag("image_generation")]
    | Annotated[ChosenFileSearch, Tag(FILE_SEARCH)]
    | Annotated[AllowedResponseTools, Tag("allowed_tools")],
    Discriminator(
        _kind,
        custom_error_type="unsupported_parameter",
        custom_error_message=(
            "this choice is not available here: choose among 'function', 'custom', 'file_search' and "
            "'image_generation' tools"
        ),
    ),
]
ResponseToolChoice = ToolModeName | NamedChoice


def choice_to_chat(choice: ResponseToolChoice | None) -> Any:
    """Convert `tool_choice` of a response to that of a chat completion."""
    if isinstance(choice, AllowedResponseTools):
        allowed = {"mode": choice.mode, "tools": [_named(tool.name) for tool in choice.tools]}
        return {"type": "allowed_tools", "allowed_tools": allowed}
    return _named(choice.name) if isinstance(choice, ChosenTool | ChosenFileSearch) else choice


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def tools_to_chat(tools: Iterable[OfferedTool]) -> list[dict[str, Any]]:
    """Convert `tools` of a response to those of a chat completion, which has none for image generation."""
    return [tool.to_chat() for tool in tools if not isinstance(tool, ImageGenerationTool)]


def image_tool(tools: Sequence[OfferedTool]) -> int | None:
    """Return the index of the tool for image generation among `tools`; `None` if there is none."""
    return next((index for index, tool in enumerate(tools) if isinstance(tool, ImageGenerationTool)), None)


def custom_names(tools: Sequence[OfferedTool]) -> frozenset[str]:
    """Return the names of the custom tools among `tools`."""
    return frozenset(tool.name for tool in tools if isinstance(tool, CustomTool))
