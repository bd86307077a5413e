"""Translates the prompt of an image into English, on which image models are trained, by the answering model."""

from __future__ import annotations

from contextlib import aclosing
from typing import NamedTuple

import structlog

from assistant.model_port import ModelCallFailed, ModelPort, ModelRequest
from assistant.routing.language import language_of
from assistant.turn import Turn
from router.messages import Usage

MAX_TOKENS = 256
"""Most tokens of a translation."""
MAX_PROMPT_TOKENS = 8192
"""Bounds the tokens of a prompt's description and of the instruction, for the hold."""

_INSTRUCTION = (
    "Translate the description of a picture into English. Reply with the translation alone, on one line, without "
    "quotes or explanations."
)
_EXAMPLES = (
    ("czerwony dom nad jeziorem", "a red house by a lake"),
    ("trzy psy bawiące się na plaży", "three dogs playing on the beach"),
)
_QUOTES = " \t\"'„”“`"

_log = structlog.get_logger(__name__)


class Translation(NamedTuple):
    """An English prompt, `None` if the model gave none, and what the call used."""

    text: str | None
    usage: Usage | None


def is_english(prompt: str, question: str) -> bool:
    """Return whether the prompt of an image is English; one without evidence has the language of `question`."""
    return not _has_foreign_letters(prompt) and language_of(prompt, [Turn("user", question)]) == "en"


async def translate(prompt: str, models: ModelPort, model: str, *, limit: int) -> Translation:
    """Translate the prompt of an image into English by a call of `model`, and return it with the usage of the call.

    The text is `None` if the model's answer is empty, not English, or has more than `limit` characters.
    """
    pieces, usage = [], None
    request = ModelRequest(model=model, messages=_messages(prompt), max_tokens=MAX_TOKENS)
    try:
        async with aclosing(models.generate(request)) as answer:
            async for piece in answer:
                pieces.append(piece.text)
                usage = piece.usage or usage
    except ModelCallFailed as error:
        _log.warning("a prompt was not translated", reason=str(error))
        return Translation(None, usage)
    lines = "".join(pieces).strip().splitlines()
    text = lines[0].strip(_QUOTES) if lines else ""
    return Translation(text if _is_translation(text, prompt) and len(text) <= limit else None, usage)


def _is_translation(text: str, prompt: str) -> bool:
    same = text.casefold().split() == prompt.casefold().split()
    english = not _has_foreign_letters(text) and language_of(text) == "en"
    return english and not same and any(map(str.isalpha, text))


def _has_foreign_letters(text: str) -> bool:
    return any(each.isalpha() and not each.isascii() for each in text)


def _messages(prompt: str) -> list[dict[str, str]]:
    messages = [{"role": "system", "content": _INSTRUCTION}]
    for foreign, english in _EXAMPLES:
        messages += [{"role": "user", "content": foreign}, {"role": "assistant", "content": english}]
    return [*messages, {"role": "user", "content": prompt}]
