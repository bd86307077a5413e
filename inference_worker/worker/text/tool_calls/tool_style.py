"""Determines from a model's chat template in which markup the model writes tool calls.

If the template does not use `tools`, or writes calls in an unknown markup, tools are described in the system message
instead, in the Hermes markup (`template_messages.py`). So calling works with any model that follows the instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from inference_worker.worker.text.tool_calls.markup import Markup


class MarkupFamily(StrEnum):
    """A family of tool call markups, recognised by strings in the chat template."""

    HERMES = "hermes"
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Nous Hermes, Qwen 2.5 and 3, and others."""
    LLAMA3 = "llama3"
    """`{"name": ..., "parameters": {...}}` as the whole message, optionally after `<|python_tag|>`."""
    MISTRAL = "mistral"
    """`[TOOL_CALLS]`, then a JSON list of calls, or (since Mistral Small 3.1) `name[ARGS]{...}` for each."""


@dataclass(frozen=True)
class ToolStyle:
    """Markup of one model's calls. `in_template`: whether its chat template describes the tools."""

    family: MarkupFamily
    in_template: bool


MARKUPS: Mapping[MarkupFamily, Markup] = {
    MarkupFamily.HERMES: Markup("<tool_call>", "</tool_call>", tokens=frozenset({"<tool_call>", "</tool_call>"})),
    MarkupFamily.LLAMA3: Markup("<|python_tag|>", bare=True, separator=";", tokens=frozenset({"<|python_tag|>"})),
    MarkupFamily.MISTRAL: Markup(
        "[TOOL_CALLS]", named=True, tokens=frozenset({"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[/TOOL_CALLS]"})
    ),
}
JSON_CALLS = Markup(bare=True)
"""Calls that a grammar enforces from any model: one as a JSON object, or a list of them."""


_OTHER_MARKUP = ("<function=", "<arg_key>", "<parameter=")
"""Markup with arguments as tags (Qwen3-Coder, GLM), which begins like that of Hermes."""


def tool_style(template: str, *, reads_tools: bool) -> ToolStyle:
    """Determine from a model's chat template in which markup the model writes tool calls.

    `reads_tools`: whether the template uses `tools`; otherwise tools are described in the system message.
    """
    family = _family(template) if reads_tools else None
    return ToolStyle(family or MarkupFamily.HERMES, in_template=family is not None)


def _family(template: str) -> MarkupFamily | None:
    if any(markup in template for markup in _OTHER_MARKUP):
        return None
    if "<tool_call>" in template:
        return MarkupFamily.HERMES
    if "[TOOL_CALLS]" in template:
        return MarkupFamily.MISTRAL
    if "ipython" in template and '"parameters"' in template:
        return MarkupFamily.LLAMA3
    return None
