"""Texts that moderation checks: those of a prompt, and what a delta adds to an answer."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.errors import InvalidRequest
from gateway.moderation.argument_text import ArgumentText
from router.messages import ChatPrompt, Delta, ImagePrompt, Prompt, TextPrompt, TokenPrompt

_NOT_A_TEXT = "Invalid 'prompt': this project's prompts are moderated, which token ids can't be: send text."


def prompt_texts(prompt: Prompt) -> list[str]:
    """Return the texts of a prompt: of the messages of all roles, with their tool calls, and of template options.

    Prompts of jobs that generate nothing have none. Tools that the client offers and images are not checked.

    Raises:
        InvalidRequest: the prompt consists of token ids.
    """
    match prompt:
        case ChatPrompt():
            texts = [text for message in prompt.messages for text in _message_texts(message)]
            texts += _strings(prompt.template_kwargs)
            if prompt.own_tool_call is not None:
                texts += _strings(prompt.own_tool_call.arguments)
        case TextPrompt():
            texts = [prompt.text, prompt.suffix]
        case ImagePrompt():
            texts = [prompt.prompt]
        case TokenPrompt():
            raise InvalidRequest(_NOT_A_TEXT, param="prompt")
        case _:
            texts = []
    return [text for text in texts if text.strip()]


class AnswerText:
    """Reads the texts of one choice's deltas, in their order."""

    def __init__(self) -> None:
        self._arguments: defaultdict[int, ArgumentText] = defaultdict(ArgumentText)
        """Arguments of the calls until now, by the call's index."""

    def add(self, delta: Delta) -> str:
        """Return the text that the next delta adds: reasoning, answer, and calls of tools, or all texts of a step.

        Texts of a step are arguments and results of tools, and paths of a search.
        """
        if delta.step is not None:
            return "\n".join(_strings(delta.step.data)) + "\n"
        calls = "".join(call.name + self._arguments[call.index].take(call.arguments) for call in delta.tool_calls or ())
        separator = "\n" if delta.reasoning and delta.text else ""
        return delta.reasoning + separator + delta.text + calls


def _message_texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    else:
        yield from (part.get("text") or "" for part in content or ())
    yield message.get("reasoning_content") or ""
    yield from (_call_text(call["function"]) for call in message.get("tool_calls") or ())


def _call_text(function: Mapping[str, Any]) -> str:
    """Return the name of a called tool, and the names and strings of its arguments, as templates parse them.

    Names that are repeated are read too. Arguments that are not JSON are read as they are.
    """
    try:
        texts = list(_strings(json.loads(function["arguments"], object_pairs_hook=list)))
    except (ValueError, RecursionError):
        texts = [function["arguments"]]
    return "\n".join([function["name"], *texts])


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for each in value:
            yield from _strings(each)
