"""Request models of `tools` and `tool_choice` of chat completions, and their conversion for jobs.

Source: `ChatCompletionTool`, `ChatCompletionToolChoiceOption` of OpenAI's specification; names and counts as OpenAI
limits them. Only function tools are supported. The worker decides whether a function's `parameters` can be compiled to
a grammar, and only where a call is forced or the function is `strict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel
from gateway.openai.json_schema import check_schema
from router.messages import ToolChoice, ToolMode

MAX_TOOLS = 128

ToolName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


def _schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return `parameters` if they are the schema of an object.

    Raises:
        PydanticCustomError: They are not.
    """
    if parameters.get("type", "object") != "object":
        raise PydanticCustomError("invalid_value", "the schema of a function's parameters must have the type 'object'")
    return check_schema(parameters)


class FunctionDefinition(ApiModel):
    """A function that the model may call; without `parameters` it takes none."""

    name: ToolName
    description: Annotated[str, StringConstraints(max_length=16_384)] | None = None
    parameters: Annotated[dict[str, Any], AfterValidator(_schema)] | None = None
    strict: bool | None = None
    """Whether calls with `tool_choice: "auto"` must match the schema; forced calls always do."""


def _only_functions(kind: Any) -> Any:
    if kind == "custom":
        raise PydanticCustomError("unsupported_parameter", "custom tools are not supported: only 'function' tools are")
    return kind


FunctionType = Annotated[Literal["function"], BeforeValidator(_only_functions)]


class FunctionTool(ApiModel):
    """A function tool, the only supported type."""

    type: FunctionType
    function: FunctionDefinition


def _distinct(tools: list[FunctionTool]) -> list[FunctionTool]:
    if len({tool.function.name for tool in tools}) != len(tools):
        raise PydanticCustomError("invalid_value", "two tools have the same name")
    return tools


Tools = Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS), AfterValidator(_distinct)]


class FunctionName(ApiModel):
    """A reference to a function by name."""

    name: ToolName


class NamedTool(ApiModel):
    """A forced call of one function: `{"type": "function", "function": {"name": ...}}`."""

    type: FunctionType
    function: FunctionName


class AllowedTools(ApiModel):
    """A subset of the tools, each named as `NamedTool` does."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], Field(min_length=1, max_length=MAX_TOOLS)]


class AllowedToolsChoice(ApiModel):
    """A restriction to some tools: `{"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}`."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoiceOption = Literal["none", "auto", "required"] | NamedTool | AllowedToolsChoice


def check_tool_choice(choice: ToolChoiceOption | None, tools: Sequence[FunctionTool]) -> None:
    """Check that a `tool_choice` is possible with the request's `tools`.

    Raises:
        PydanticCustomError: A named tool is missing, or there are no tools.
    """
    if choice is None or choice in ("none", "auto"):
        return
    if not tools:
        raise PydanticCustomError("invalid_value", "'tool_choice' is only allowed when 'tools' are specified")
    missing = set(_names(choice)) - {tool.function.name for tool in tools}
    if missing:
        raise PydanticCustomError("invalid_value", "'tool_choice' names a function that is not among the 'tools'")


def tool_choice_to_wire(choice: ToolChoiceOption | None, parallel: bool | None) -> ToolChoice:
    """Convert `tool_choice` and `parallel_tool_calls` (`parallel`) to the form that jobs carry to workers."""
    if isinstance(choice, NamedTool):
        # A named function is called exactly once.
        return ToolChoice(mode=ToolMode.REQUIRED, names=_names(choice), parallel=False)
    names = _names(choice)
    mode = choice.allowed_tools.mode if isinstance(choice, AllowedToolsChoice) else choice or "auto"
    return ToolChoice(mode=ToolMode(mode), names=names, parallel=parallel is not False)


def _names(choice: ToolChoiceOption | None) -> list[str]:
    if isinstance(choice, NamedTool):
        return [choice.function.name]
    if isinstance(choice, AllowedToolsChoice):
        return [tool.function.name for tool in choice.allowed_tools.tools]
    return []


def tools_to_wire(tools: Sequence[FunctionTool]) -> list[dict[str, Any]]:
    """Convert a request's tools to the form in jobs that chat templates read: fixed key order, always `parameters`."""
    return [{"type": "function", "function": _function(tool.function)} for tool in tools]


def _function(function: FunctionDefinition) -> dict[str, Any]:
    described = {} if function.description is None else {"description": function.description}
    parameters = function.parameters or {"type": "object", "properties": {}}
    return {"name": function.name, **described, "parameters": parameters}
