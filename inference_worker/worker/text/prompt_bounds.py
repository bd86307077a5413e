"""Computes upper bounds on the number of a prompt's tokens by its bytes, by which gateways limit text before a job.

The most tokens that a text can have follow from the tokenizer's definition. The tokens that the chat template adds are
measured on short conversations, with a margin, because a template is a program that can't be analysed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from inference_worker.errors import PromptRejected
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.chat_template import ChatTemplate
from router.messages import ChatPrompt, PromptBounds

MARGIN = 1.25
"""Factor on measured numbers, because dates and the like make templates longer on some days."""
EXTRA_TOKENS = 4
"""Tokens added to measured numbers."""

Message = dict[str, Any]

_USER: Message = {"role": "user", "content": "x"}
_SYSTEM: Message = {"role": "system", "content": "x"}
_ANSWER: Message = {"role": "assistant", "content": "x"}
_CALL: Message = {
    "role": "assistant",
    "content": "x",
    "tool_calls": [{"id": "call_abcd", "type": "function", "function": {"name": "f", "arguments": {}}}],
}
_RESULT: Message = {"role": "tool", "content": "x", "tool_call_id": "call_abcd"}
_TOOL: Message = {"type": "function", "function": {"name": "f", "description": "x", "parameters": {"type": "object"}}}
_LONGER = (
    ([_USER], [_SYSTEM, _USER]),
    ([_USER], [_USER, _ANSWER]),
    ([_USER, _ANSWER], [_USER, _ANSWER, _USER]),
    ([_USER, _CALL], [_USER, _CALL, _RESULT]),
    ([_USER, _CALL, _RESULT], [_USER, _CALL, _RESULT, _ANSWER]),
)
"""Pairs of a conversation and the same with one more message. The bytes of tool calls are counted separately."""
_EFFORTS = ("", "none", "high")
_HARMLESS = frozenset({"Strip", "StripAccents", "Lowercase", "Prepend"})
_FORMS = {"NFC": "NFC", "NFD": "NFD", "NFKC": "NFKC", "NFKD": "NFKD", "BertNormalizer": "NFD", "Precompiled": "NFKC"}


def prompt_bounds(tokenizer: Tokenizer, template: ChatTemplate | None) -> PromptBounds:
    """Compute upper bounds on the number of prompt tokens of a generating model, once at the worker's start.

    Of conversations there are bounds only with a chat `template`.
    """
    bounds = text_bounds(tokenizer.normalizer, lambda text: len(tokenizer.encode(text)))
    if template is None or not bounds.per_byte:
        return bounds

    def tokens(prompt: ChatPrompt) -> int:
        return len(tokenizer.encode_rendered(template.render(prompt), "\ufdd0"))

    try:
        return _with_conversations(bounds, tokens)
    except PromptRejected:  # the template rejects every conversation
        return bounds


def text_bounds(normalizer: Any, tokens: Callable[[str], int]) -> PromptBounds:
    """Compute the coefficients by which gateways bound the number of tokens of a plain text by its bytes.

    There are no bounds if the normalizer may lengthen a text by an unknown factor.

    Args:
        normalizer: the `normalizer` of the tokenizer's `tokenizer.json`.
        tokens: returns the number of tokens of a text, those for its begin and end included.
    """
    forms: set[str] = set()
    for step in _steps(normalizer):
        if step["type"] in _FORMS:
            forms.add(_FORMS[step["type"]])
        elif step["type"] not in _HARMLESS and not _shortens(step):
            return PromptBounds()
    if len(forms) > 1:
        return PromptBounds()
    return PromptBounds(per_byte=1, normal_form="".join(forms), per_text=tokens("x") + EXTRA_TOKENS)


def _with_conversations(bounds: PromptBounds, tokens: Callable[[ChatPrompt], int]) -> PromptBounds:
    alone = tokens(_prompt([_USER]))
    with_tools = alone
    with suppress(PromptRejected):
        with_tools = tokens(_prompt([_USER], tools=[_TOOL]))
    return msgspec.structs.replace(
        bounds,
        per_conversation=_safe(max(_counted(tokens, [_USER]), default=alone)),
        per_message=_safe(max(_growth(tokens), default=alone)),
        tools=_safe(with_tools - alone),
    )


def _growth(tokens: Callable[[ChatPrompt], int]) -> Iterable[int]:
    """Yield the tokens that one more message adds, for each pair that the template accepts."""
    for shorter, longer in _LONGER:
        yield from _counted(tokens, longer, less=shorter)


def _counted(
    tokens: Callable[[ChatPrompt], int], messages: list[Message], *, less: list[Message] | None = None
) -> Iterable[int]:
    for effort in _EFFORTS:
        with suppress(PromptRejected):
            fewer = tokens(_prompt(less, effort=effort)) if less else 0
            yield tokens(_prompt(messages, effort=effort)) - fewer


def _prompt(messages: list[Message], *, tools: list[Message] | None = None, effort: str = "") -> ChatPrompt:
    return ChatPrompt(messages=messages, tools=tools, reasoning_effort=effort)


def _safe(measured: int) -> int:
    return math.ceil(measured * MARGIN) + EXTRA_TOKENS


def _steps(normalizer: Any) -> Iterable[dict[str, Any]]:
    if normalizer is None:
        return
    if normalizer["type"] == "Sequence":
        for step in normalizer["normalizers"]:
            yield from _steps(step)
    else:
        yield normalizer


def _shortens(step: dict[str, Any]) -> bool:
    """Return whether a step only replaces text by text that is no longer, or by SentencePiece's space symbol."""
    if step["type"] != "Replace":
        return False
    pattern, content = step["pattern"].get("String"), step["content"]
    return content == "▁" or (pattern is not None and len(content.encode()) <= len(pattern.encode()))
