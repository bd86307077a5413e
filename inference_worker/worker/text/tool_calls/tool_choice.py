"""Derives the grammar of the output, and the parser of tool calls in it, from a request's `tools` and `tool_choice`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference_worker.worker.text.tool_calls.call_grammars import calls_grammar, calls_or_response_grammar
from inference_worker.worker.text.tool_calls.call_parser import ToolCallParser
from inference_worker.worker.text.tool_calls.strict_call_grammar import strict_calls_grammar
from inference_worker.worker.text.tool_calls.tool_style import JSON_CALLS, MARKUPS, ToolStyle
from router.messages import ChatPrompt, Grammar, Prompt, ToolMode


def output_grammar(
    prompt: Prompt, response: Grammar | None, style: ToolStyle | None, controls: Mapping[str, int]
) -> Grammar | None:
    """Return the grammar that a request's output must match, tool calls included; `None` if any output is allowed.

    Args:
        prompt: has the request's `tools` and `tool_choice`.
        response: the grammar that the request sets for answers without calls.
        style: the markup in which the model writes calls; `None` for a model without chat template.
        controls: ids of the vocabulary's control tokens, by text.

    Raises:
        PromptRejected: `response` can't be combined with tools.
    """
    if not isinstance(prompt, ChatPrompt) or not (tools := _callable(prompt)):
        return response
    choice = prompt.tool_choice
    if choice.mode is ToolMode.REQUIRED:
        return calls_grammar(tools, parallel=choice.parallel)
    if response is not None:
        return calls_or_response_grammar(tools, response, parallel=choice.parallel)
    if style is None or not any(tool["function"].get("strict") for tool in tools):
        return None
    return strict_calls_grammar(tools, MARKUPS[style.family], controls, parallel=choice.parallel)


def call_parser(prompt: Prompt, style: ToolStyle, response: Grammar | None) -> ToolCallParser | None:
    """Create the parser that finds the tool calls in one choice's text; `None` if the request allows no calls.

    Args:
        prompt: has the request's `tools` and `tool_choice`.
        style: the markup in which the model writes calls.
        response: the grammar that the request sets for answers without calls.
    """
    if not isinstance(prompt, ChatPrompt) or not (tools := _callable(prompt)):
        return None
    choice = prompt.tool_choice
    names = frozenset(tool["function"]["name"] for tool in tools)
    if choice.mode is ToolMode.REQUIRED:
        return ToolCallParser(JSON_CALLS, names, several=choice.parallel, only_calls=True)
    return ToolCallParser(JSON_CALLS if response else MARKUPS[style.family], names, several=choice.parallel)


def _callable(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """Return the tools that may be called."""
    choice = prompt.tool_choice
    if choice.mode is ToolMode.NONE:
        return []
    return [tool for tool in prompt.tools or [] if not choice.names or tool["function"]["name"] in choice.names]
