"""Request models of `tools` and `tool_choice` of chat completions, and their conversion for jobs.

Source: `ChatCompletionTool`, `ChatCompletionToolChoiceOption` of OpenAI's specification; names and counts as OpenAI
limits them. Only function tools are supported. The worker decides whether a function's `parameters` can be compiled to
a grammar, and only where a call is forced or the function is `strict`. The deprecated `functions` and `function_call`
are translated to them.
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


Parameters = Annotated[dict[str, Any], AfterValidator(_schema)]
"""Schema of a function's parameters."""


class FunctionDefinition(ApiModel):
    """A function that the model may call; without `parameters` it takes none."""

    name: ToolName
    description: Annotated[str, StringConstraints(max_length=16_384)] | None = None
    parameters: Parameters | None = None
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
    _distinct_functions([tool.function for tool in tools])
    return tools


def _distinct_functions(functions: list[FunctionDefinition]) -> list[FunctionDefinition]:
    if len({function.name for function in functions}) != len(functions):
        raise PydanticCustomError("invalid_value", "two tools have the same name")
    return functions


Tools = Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS), AfterValidator(_distinct)]
Functions = Annotated[list[FunctionDefinition], Field(max_length=MAX_TOOLS), AfterValidator(_distinct_functions)]
"""The deprecated form of `Tools`."""


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
FunctionCallOption = Literal["none", "auto"] | FunctionName
"""The deprecated form of `ToolChoiceOption`."""


def tools_of_functions(functions: Sequence[FunctionDefinition]) -> list[FunctionTool]:
    """Translate the deprecated `functions` to `tools`."""
    return [FunctionTool(type="function", function=function) for function in functions]


def tool_choice_of_function_call(option: FunctionCallOption | None) -> ToolChoiceOption | None:
    """Translate the deprecated `function_call` to `tool_choice`."""
    return NamedTool(type="function", function=option) if isinstance(option, FunctionName) else option


def check_tool_choice(
    choice: ToolChoiceOption | None,
    tools: Sequence[FunctionTool],
    fields: tuple[str, str] = ("tool_choice", "tools"),
) -> None:
    """Check that a `tool_choice` is possible with the request's `tools`; `fields` are the names of both in errors.

    Raises:
        PydanticCustomError: A named tool is missing, or there are no tools.
    """
    if choice is None or choice in ("none", "auto"):
        return
    names = {"choice": fields[0], "tools": fields[1]}
    if not tools:
        message = "'{choice}' is only allowed when '{tools}' are specified"
        raise PydanticCustomError("invalid_value", message, names)
    missing = set(_names(choice)) - {tool.function.name for tool in tools}
    if missing:
        message = "'{choice}' names a function that is not among the '{tools}'"
        raise PydanticCustomError("invalid_value", message, names)


def tool_choice_to_wire(choice: ToolChoiceOption | None, *, parallel: bool) -> ToolChoice:
    """Convert `tool_choice` to the form that jobs carry to workers; `parallel` allows more than one call."""
    if isinstance(choice, NamedTool):
        # A named function is called exactly once.
        return ToolChoice(mode=ToolMode.REQUIRED, names=_names(choice), parallel=False)
    names = _names(choice)
    mode = choice.allowed_tools.mode if isinstance(choice, AllowedToolsChoice) else choice or "auto"
    return ToolChoice(mode=ToolMode(mode), names=names, parallel=parallel)


def _names(choice: ToolChoiceOption | None) -> list[str]:
    if isinstance(choice, NamedTool):
        return [choice.function.name]
    if isinstance(choice, AllowedToolsChoice):
        return [tool.function.name for tool in choice.allowed_tools.tools]
    return []


def tools_to_wire(tools: Sequence[FunctionTool]) -> list[dict[str, Any]]:
    """Convert a request's tools to the form in jobs: fixed key order, always `parameters`, `strict` if it is true."""
    return [{"type": "function", "function": _function(tool.function)} for tool in tools]


def _function(function: FunctionDefinition) -> dict[str, Any]:
    described = {} if function.description is None else {"description": function.description}
    parameters = function.parameters or {"type": "object", "properties": {}}
    strict = {"strict": True} if function.strict else {}
    return {"name": function.name, **described, "parameters": parameters, **strict}
