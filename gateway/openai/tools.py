"""The tools of a chat request, and which of them the model may or must call.

Source: `ChatCompletionTool`, `ChatCompletionToolChoiceOption` of OpenAI's specification; names and counts as OpenAI
limits them. Only function tools are offered. Whether a grammar can be made of a function's `parameters` is found out by
a worker, and only if a call is forced.
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
    """`parameters`, if they are a schema of an object.

    Raises:
        PydanticCustomError: they are not.
    """
    if parameters.get("type", "object") != "object":
        raise PydanticCustomError("invalid_value", "the schema of a function's parameters must have the type 'object'")
    return check_schema(parameters)


class FunctionDefinition(ApiModel):
    """A function that the model may call. No `parameters`: it takes none."""

    name: ToolName
    description: Annotated[str, StringConstraints(max_length=16_384)] | None = None
    parameters: Annotated[dict[str, Any], AfterValidator(_schema)] | None = None
    strict: bool | None = None
    """Forced calls match the schema whether it is set or not; others are the model's own."""


def _only_functions(kind: Any) -> Any:
    if kind == "custom":
        raise PydanticCustomError("unsupported_parameter", "custom tools are not supported: only 'function' tools are")
    return kind


FunctionType = Annotated[Literal["function"], BeforeValidator(_only_functions)]


class FunctionTool(ApiModel):
    """A tool of the only kind that is offered."""

    type: FunctionType
    function: FunctionDefinition


def _distinct(tools: list[FunctionTool]) -> list[FunctionTool]:
    if len({tool.function.name for tool in tools}) != len(tools):
        raise PydanticCustomError("invalid_value", "two tools have the same name")
    return tools


Tools = Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS), AfterValidator(_distinct)]


class FunctionName(ApiModel):
    """A function by its name."""

    name: ToolName


class NamedTool(ApiModel):
    """`{"type": "function", "function": {"name": ...}}`: this one must be called."""

    type: FunctionType
    function: FunctionName


class AllowedTools(ApiModel):
    """A subset of the tools, each named as `NamedTool` does."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], Field(min_length=1, max_length=MAX_TOOLS)]


class AllowedToolsChoice(ApiModel):
    """`{"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}`."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


Choice = Literal["none", "auto", "required"] | NamedTool | AllowedToolsChoice


def check_choice(choice: Choice | None, tools: Sequence[FunctionTool]) -> None:
    """A choice must be possible with the tools that are there.

    Raises:
        PydanticCustomError: it is not.
    """
    if choice is None or choice in ("none", "auto"):
        return
    if not tools:
        raise PydanticCustomError("invalid_value", "'tool_choice' is only allowed when 'tools' are specified")
    missing = set(_names(choice)) - {tool.function.name for tool in tools}
    if missing:
        raise PydanticCustomError("invalid_value", "'tool_choice' names a function that is not among the 'tools'")


def choice_to_wire(choice: Choice | None, parallel: bool | None) -> ToolChoice:
    """What a worker has to know of `tool_choice` and `parallel_tool_calls`."""
    if isinstance(choice, NamedTool):
        # One named function is called once.
        return ToolChoice(mode=ToolMode.REQUIRED, names=_names(choice), parallel=False)
    names = _names(choice)
    mode = choice.allowed_tools.mode if isinstance(choice, AllowedToolsChoice) else choice or "auto"
    return ToolChoice(mode=ToolMode(mode), names=names, parallel=parallel is not False)


def _names(choice: Choice | None) -> list[str]:
    if isinstance(choice, NamedTool):
        return [choice.function.name]
    if isinstance(choice, AllowedToolsChoice):
        return [tool.function.name for tool in choice.allowed_tools.tools]
    return []


def tools_to_wire(tools: Sequence[FunctionTool]) -> list[dict[str, Any]]:
    """Tools as chat templates read them: in one order of keys, with parameters even if there are none."""
    return [{"type": "function", "function": _function(tool.function)} for tool in tools]


def _function(function: FunctionDefinition) -> dict[str, Any]:
    described = {} if function.description is None else {"description": function.description}
    parameters = function.parameters or {"type": "object", "properties": {}}
    return {"name": function.name, **described, "parameters": parameters}
