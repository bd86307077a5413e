"""Rewrites follow-up questions to stand alone: by a model where one is configured, checked by rules, else by rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from assistant.model_port import ModelCallFailed, ModelPort, ModelRequest
from assistant.routing.language import language_of
from assistant.routing.normal_form import plain
from assistant.routing.rule_rewriter import MAX_TURNS, is_follow_up, resolve
from assistant.turn import Turn
from router.messages import Usage

MAX_TOKENS = 96
MAX_TURN_CHARACTERS = 400
"""Characters of a turn that the model reads: its beginning."""
KEPT_WORDS = 0.5
"""Least share of the question's words that the model's rewrite has."""

_INSTRUCTION = (
    "Rewrite the last question so that it can be understood without the conversation. Replace pronouns and references"
    " by what they mean. Keep the language, change nothing else, do not answer it. Write only the question."
)
_EXAMPLES = (
    ("User: Who was Marie Curie?\nAssistant: A physicist.\nQuestion: When was she born?", "When was Marie Curie born?"),
    (
        "User: Jaka jest pogoda w Krakowie?\nAssistant: Jest 20 stopni.\nQuestion: A w niedzielę?",
        "Jaka będzie pogoda w Krakowie w niedzielę?",
    ),
)
_SMALL_WORDS = 3
"""Words of at most so many letters are not compared."""


@dataclass(frozen=True)
class Rewrite:
    """A question that stands alone."""

    question: str
    by: Literal["rules", "model"] | None = None
    """What rewrote the question; `None`: it is unchanged."""
    usage: Usage | None = None
    """Tokens that the model used, also if its rewrite was discarded."""


class FollowUpRewriter:
    """Rewriter of follow-up questions. Without a `model` it only has rules, which also check and replace the model's.

    The model's rewrite is discarded if it lacks the entity that the rules found, or most words of the question.
    """

    def __init__(self, model: str | None = None) -> None:
        self._model = model

    async def rewrite(self, question: str, history: Sequence[Turn], models: ModelPort) -> Rewrite:
        """Return a question rewritten to stand alone, or unchanged if it does not refer to the turns of `history`.

        A configured model rewrites it by `models`; if the model fails, the rules do.
        """
        if not is_follow_up(question, history):
            return Rewrite(question)
        resolved = resolve(question, history)
        usage = None
        if self._model is not None:
            try:
                text, usage = await _ask(self._model, question, history, models)
            except ModelCallFailed:
                text = ""
            if _is_faithful(text, question, "" if resolved is None else resolved.entity):
                return Rewrite(text, "model" if text != question else None, usage)
        if resolved is None:
            return Rewrite(question, usage=usage)
        return Rewrite(resolved.question, "rules", usage)


async def _ask(model: str, question: str, history: Sequence[Turn], models: ModelPort) -> tuple[str, Usage | None]:
    """Return the first line that the model writes, and its usage if it ended by itself."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": _INSTRUCTION}]
    for asked, answer in _EXAMPLES:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    messages.append({"role": "user", "content": _conversation(question, history)})
    text, usage = "", None
    async with aclosing(models.generate(ModelRequest(model, messages, max_tokens=MAX_TOKENS))) as pieces:
        async for piece in pieces:
            text += piece.text
            usage = piece.usage or usage
            if "\n" in text.lstrip():
                break
    line = text.strip().partition("\n")[0].strip().removeprefix("Question:").strip()
    return line.strip('"„”'), usage


def _conversation(question: str, history: Sequence[Turn]) -> str:
    said = [f"{turn.role.capitalize()}: {_line(turn.text)}" for turn in history[-MAX_TURNS:]]
    return "\n".join([*said, f"Question: {_line(question)}"])


def _line(text: str) -> str:
    return " ".join(text.split())[:MAX_TURN_CHARACTERS]


def _is_faithful(rewrite: str, question: str, entity: str) -> bool:
    """Return whether a model's rewrite has the entity and most words of the question, in its language, and no more."""
    if not rewrite or len(rewrite) > 2 * len(question) + len(entity) + 60:
        return False
    if entity and not _has_entity(rewrite, entity):
        return False
    wanted = _stems(question)
    kept = sum(any(each.startswith(stem) for each in plain(rewrite).split()) for stem in wanted)
    same_language = language_of(rewrite) == language_of(question) or len(wanted) < 2
    return kept >= KEPT_WORDS * len(wanted) and same_language


def _has_entity(rewrite: str, entity: str) -> bool:
    text = plain(rewrite)
    if re.search(r"[\d=^*/+]", entity):
        return plain(entity).replace(" ", "") in text.replace(" ", "")
    stems = _stems(entity) or {plain(entity)}
    return sum(stem in text for stem in stems) >= max(1, KEPT_WORDS * len(stems))


def _stems(text: str) -> set[str]:
    """Return the beginnings of a text's longer words: four letters, which inflection mostly leaves."""
    return {word[:4] for word in re.findall(r"\w+", plain(text)) if len(word) > _SMALL_WORDS}
