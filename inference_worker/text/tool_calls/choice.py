"""What a request's tools and its choice of them mean for what the model writes."""

from __future__ import annotations

from inference_worker.text.tool_calls.call_reader import CallReader
from inference_worker.text.tool_calls.family import FORCED, MARKUPS, ToolStyle
from router.messages import ChatPrompt, ToolMode


def reader_of(prompt: ChatPrompt, style: ToolStyle) -> CallReader | None:
    """What tells calls from words; `None`: there are only words."""
    choice = prompt.tool_choice
    if not prompt.tools or choice.mode is ToolMode.NONE:
        return None
    names = frozenset(choice.names) or frozenset(tool["function"]["name"] for tool in prompt.tools)
    if choice.mode is ToolMode.REQUIRED:
        return CallReader(FORCED, names, several=choice.parallel, only_calls=True)
    return CallReader(MARKUPS[style.family], names, several=choice.parallel)
