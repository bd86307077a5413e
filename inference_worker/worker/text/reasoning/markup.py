"""Determines from a model's chat template in which markup the model writes its reasoning before the answer.

The definitions are the table here; response schemas and parsers in a model's folder are never run. In each markup the
reasoning comes first, and all that follows it is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.messages import ChatPrompt


@dataclass(frozen=True)
class ReasoningMarkup:
    """Markup of reasoning: it begins at `start`, unless the prompt ends with `start`, and ends at `end`."""

    start: str
    end: str
    closing: str
    """Text after which the model answers at once, where a prompt has begun the reasoning."""
    forced: str
    """Text that ends a reasoning whose budget is used up; it ends with `end`."""
    tokens: frozenset[str]
    """Tokens of the markup; budgets and grammars need a vocabulary that has all of them."""
    message: str = ""
    """Text that ends the header of each message, where reasoning and answer are messages with a header; else empty."""
    message_ends: tuple[str, ...] = ()
    """Texts of which each ends a message."""


def _tags(start: str, end: str) -> ReasoningMarkup:
    return ReasoningMarkup(start, end, f"\n{end}\n\n", end, frozenset({start, end}))


HARMONY = ReasoningMarkup(
    start="<|start|>assistant",
    end="<|channel|>final<|message|>",
    closing="<|channel|>final<|message|>",
    forced="<|end|><|start|>assistant<|channel|>final<|message|>",
    tokens=frozenset({"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"}),
    message="<|message|>",
    message_ends=("<|end|>", "<|return|>", "<|call|>"),
)
"""Messages of gpt-oss: those of the channels `analysis` and `commentary` before the first of `final` are reasoning."""
MARKUPS = (
    HARMONY,
    _tags("<think>", "</think>"),
    _tags("[THINK]", "[/THINK]"),
    _tags("<seed:think>", "</seed:think>"),
)
"""Known markups: of gpt-oss; of DeepSeek R1, Qwen 3, SmolLM3, GLM 4.5, OLMo 3 and most others; Magistral; Seed-OSS."""


def reasoning_markup(template: str) -> ReasoningMarkup | None:
    """Return the markup of reasoning that a model's chat template writes or reads; `None` if it has none.

    A template that only reads the markup is enough: where a model does not think, no answer begins with `start`.
    """
    for markup in MARKUPS:
        if markup.end in template or (not markup.message and markup.start in template):
            return markup
    return None


def is_off(prompt: ChatPrompt) -> bool:
    """Return whether a prompt asks for answers without reasoning."""
    if prompt.thinking_token_budget == 0:
        return True
    return prompt.reasoning_effort == "none" and prompt.template_kwargs.get("enable_thinking") is not True


def without_reasoning(rendered: str, markup: ReasoningMarkup) -> str:
    """Return a rendered prompt in which a reasoning that it begins is ended at once."""
    return rendered + markup.closing if rendered.rstrip().endswith(markup.start) else rendered
