"""Chooses the tool for a question, and on request its arguments, by a model held to them by a grammar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from assistant.model_port import ModelPort, ModelRequest
from assistant.routing.function_prompt import NONE, by_function_name, choice_grammar, choice_messages
from assistant.routing.router import Choice
from assistant.tools.tool import Tool
from assistant.turn import Turn
from router.messages import Usage

MAX_TOKENS = 96
"""Tokens of a choice with its arguments; a longer one keeps its tool and loses its arguments."""
MAX_NAME_TOKENS = 24


class GrammarRouter:
    """Router that holds a model's output to the names of the tools, with arguments if `with_arguments`.

    Without arguments a decision is one prefill and a few tokens; the tool's `from_question` finds the arguments.
    """

    way = "grammar"

    def __init__(self, model: str, *, with_arguments: bool = False) -> None:
        self._model = model
        self._with_arguments = with_arguments

    async def choose(self, question: str, history: Sequence[Turn], tools: Sequence[Tool], models: ModelPort) -> Choice:
        """Return the choice of a tool that the model writes for a question that stands alone.

        Output that breaks the grammar, or is cut off, is a direct answer.

        Raises:
            ModelCallFailed: the model did not answer.
        """
        named = by_function_name(tools)
        request = ModelRequest(
            self._model,
            choice_messages(question, named, self._with_arguments),
            grammar=choice_grammar(named, self._with_arguments),
            max_tokens=MAX_TOKENS if self._with_arguments else MAX_NAME_TOKENS,
        )
        text, usage = "", None
        async with aclosing(models.generate(request)) as pieces:
            async for piece in pieces:
                text += piece.text
                usage = piece.usage or usage
        return self._choice(text.strip(), named, usage)

    def _choice(self, text: str, named: dict[str, Tool], usage: Usage | None) -> Choice:
        name, arguments = _read(text) if self._with_arguments else (text, {})
        tool = named.get(name)
        return Choice(None if tool is None else tool.name, arguments if tool else {}, usage=usage)


def _read(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of a choice; `{}` if the output was cut off within the arguments."""
    try:
        choice = json.loads(text)
    except (ValueError, RecursionError):
        return _name_of_cut_off(text), {}
    if not isinstance(choice, dict):
        return NONE, {}
    name, arguments = choice.get("tool"), choice.get("arguments")
    return name if isinstance(name, str) else NONE, arguments if isinstance(arguments, dict) else {}


def _name_of_cut_off(text: str) -> str:
    head, separator, rest = text.partition('"tool"')
    quoted = rest.split('"') if separator and head.strip() == "{" else []
    return quoted[1] if len(quoted) > 2 else NONE
