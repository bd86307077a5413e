"""In which markup a model writes its calls: decided once, from its chat template.

A template that neither reads `tools` nor writes calls in a markup that we know is never shown tools: they are described
to the model in the Hermes markup, in words of our own (`conversation.py`). So calling works with any model, as well as
the model can follow an instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from inference_worker.worker.text.tool_calls.markup import Markup


class Family(StrEnum):
    """A markup for calls."""

    HERMES = "hermes"
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Nous Hermes, Qwen 2.5 and 3, and others."""
    LLAMA3 = "llama3"
    """`{"name": ..., "parameters": {...}}` as the whole message, perhaps after `<|python_tag|>`."""
    MISTRAL = "mistral"
    """`[TOOL_CALLS]`, then a JSON list of calls, or (since Mistral Small 3.1) `name[ARGS]{...}` for each."""


@dataclass(frozen=True)
class ToolStyle:
    """How one model is told of tools and answers. `in_template`: its template does the telling."""

    family: Family
    in_template: bool


MARKUPS: Mapping[Family, Markup] = {
    Family.HERMES: Markup("<tool_call>", "</tool_call>", tokens=frozenset({"<tool_call>", "</tool_call>"})),
    Family.LLAMA3: Markup("<|python_tag|>", bare=True, separator=";", tokens=frozenset({"<|python_tag|>"})),
    Family.MISTRAL: Markup(
        "[TOOL_CALLS]", named=True, tokens=frozenset({"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[/TOOL_CALLS]"})
    ),
}
FORCED = Markup(bare=True)
"""Calls alone, as a grammar makes any model write them: one as an object, or a list of them."""


_OTHER_MARKUP = ("<function=", "<arg_key>", "<parameter=")
"""Arguments as tags: the calls of Qwen3-Coder, GLM and their kin, which begin like those of Hermes."""


def tool_style(template: str, *, reads_tools: bool) -> ToolStyle:
    """The style of a model with this chat template."""
    family = _family(template) if reads_tools else None
    return ToolStyle(family or Family.HERMES, in_template=family is not None)


def _family(template: str) -> Family | None:
    if any(markup in template for markup in _OTHER_MARKUP):
        return None
    if "<tool_call>" in template:
        return Family.HERMES
    if "[TOOL_CALLS]" in template:
        return Family.MISTRAL
    if "ipython" in template and '"parameters"' in template:
        return Family.LLAMA3
    return None
