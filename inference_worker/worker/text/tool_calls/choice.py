"""What a request's tools and its choice of them mean for what the model writes: which grammar it is held to, and how
calls are told from words."""

from __future__ import annotations

from typing import Any

from inference_worker.worker.text.tool_calls.call_reader import CallReader
from inference_worker.worker.text.tool_calls.family import FORCED, MARKUPS, ToolStyle
from inference_worker.worker.text.tool_calls.forced import calls_grammar, calls_or_response_grammar
from router.messages import ChatPrompt, Grammar, Prompt, ToolMode


def grammar_of(prompt: Prompt, response: Grammar | None) -> Grammar | None:
    """What the whole output must match; `response` is what the client asked of its text.

    Raises:
        PromptRejected: calls and such a text exclude each other.
    """
    if not isinstance(prompt, ChatPrompt) or not (tools := _callable(prompt)):
        return response
    choice = prompt.tool_choice
    if choice.mode is ToolMode.REQUIRED:
        return calls_grammar(tools, parallel=choice.parallel)
    return response and calls_or_response_grammar(tools, response, parallel=choice.parallel)


def reader_of(prompt: Prompt, style: ToolStyle, response: Grammar | None) -> CallReader | None:
    """What tells calls from words; `None`: there are only words."""
    if not isinstance(prompt, ChatPrompt) or not (tools := _callable(prompt)):
        return None
    choice = prompt.tool_choice
    names = frozenset(tool["function"]["name"] for tool in tools)
    if choice.mode is ToolMode.REQUIRED:
        return CallReader(FORCED, names, several=choice.parallel, only_calls=True)
    return CallReader(FORCED if response else MARKUPS[style.family], names, several=choice.parallel)


def _callable(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """The tools that may be called."""
    choice = prompt.tool_choice
    if choice.mode is ToolMode.NONE:
        return []
    return [tool for tool in prompt.tools or [] if not choice.names or tool["function"]["name"] in choice.names]
