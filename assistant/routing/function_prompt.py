"""Builds the input by which a model chooses a tool: OpenAI functions, or a prompt and a grammar of valid outputs.

Tools are sorted by name, and the question comes last, so that the prefix cache holds all that precedes the question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from assistant.tools.argument_schema import without_references
from assistant.tools.tool import Tool
from router.messages import Grammar, GrammarKind

DIRECT = "answer_directly"
"""Name of the default function: no tool is needed."""
NONE = "none"
"""Output of a model that is held to a grammar: no tool is needed."""

_DIRECT_FUNCTION = {
    "type": "function",
    "function": {
        "name": DIRECT,
        "description": "Answer without a tool: conversation, writing, translation, code, advice, opinions.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}
_INSTRUCTION = """Choose the function that the question needs. Functions:
{functions}
- none: Answer without a function: conversation, writing, translation, code, advice, opinions.
Questions may be in any language. Drawing conclusions is not drawing, and a poem about rain needs no weather."""
_EXAMPLES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Paint a goat on a roof", "image", {"prompt": "a goat on a roof"}),
    ("Will it rain in Leeds tomorrow?", "weather", {"place": "Leeds"}),
    ("Kim był Kopernik?", "wikipedia", {"topic": "Kopernik"}),
    ("12 * 7", "math", {"operation": "evaluate", "expression": "12 * 7"}),
    ("What does my lease say about pets?", "documents", {"query": "pets in the lease"}),
    ("Napisz wiersz o burzy", NONE, {}),
)


def function_name(tool: str) -> str:
    """Return a tool's name in the characters that OpenAI permits in function names: letters, digits, `_`, `-`."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "_-") else "_" for each in tool)[:64]


def by_function_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return the tools by their function names, sorted; of two tools with one function name only the first."""
    named: dict[str, Tool] = {}
    for tool in sorted(tools, key=lambda each: each.name):
        named.setdefault(function_name(tool.name), tool)
    return named


def function_names(functions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of functions in OpenAI's form."""
    return [str(each["function"]["name"]) for each in functions]


def offered_functions(tools: Mapping[str, Tool], passed_on: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """Return the functions that a model is offered, in OpenAI's form: the client's (`passed_on`), then the tools.

    Without functions of the client a default function for a direct answer is the last one.
    """
    of_tools = [
        {
            "type": "function",
            "function": {"name": name, "description": tool.description, "parameters": tool.parameters},
        }
        for name, tool in tools.items()
    ]
    return [*passed_on, *of_tools] if passed_on else [*of_tools, _DIRECT_FUNCTION]


def choice_messages(question: str, tools: Mapping[str, Tool], with_arguments: bool) -> list[dict[str, Any]]:
    """Return the messages that ask a model to choose a function: a system message, examples, and `question`.

    All but the question is constant for the same tools, so that the prefix cache has it. `with_arguments`: the model
    writes the arguments too.
    """
    listed = "\n".join(f"- {name}: {tool.description}{_schema(tool, with_arguments)}" for name, tool in tools.items())
    messages: list[dict[str, Any]] = [{"role": "system", "content": _INSTRUCTION.format(functions=listed)}]
    for asked, name, arguments in _EXAMPLES:
        if name in tools or name == NONE:
            fit = arguments if name == NONE or set(arguments) <= set(tools[name].parameters["properties"]) else {}
            messages += [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": output(name, fit) if with_arguments else name},
            ]
    return [*messages, {"role": "user", "content": question}]


def output(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the JSON text by which a model chooses the function `name` with `arguments`, as in `choice_grammar`."""
    choice = {"tool": name} if name == NONE else {"tool": name, "arguments": arguments}
    return json.dumps(choice, ensure_ascii=False)


def choice_grammar(tools: Mapping[str, Tool], with_arguments: bool) -> Grammar:
    """Return the grammar to which a model that chooses is held: function names, or JSON objects of name and arguments.

    The latter with `with_arguments`; the arguments match the function's schema.
    """
    if not with_arguments:
        return Grammar(kind=GrammarKind.CHOICE, source=json.dumps([*tools, NONE]))
    choices = [_object(name, without_references(tool.parameters)) for name, tool in tools.items()]
    return Grammar(kind=GrammarKind.JSON_SCHEMA, source=json.dumps({"anyOf": [*choices, _object(NONE, None)]}))


def _object(name: str, parameters: dict[str, Any] | None) -> dict[str, Any]:
    properties: dict[str, Any] = {"tool": {"const": name}}
    if parameters is not None:
        properties["arguments"] = parameters
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _schema(tool: Tool, with_arguments: bool) -> str:
    return f" Arguments: {json.dumps(tool.parameters, ensure_ascii=False)}" if with_arguments else ""
