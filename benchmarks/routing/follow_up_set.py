"""Reads labelled follow-up questions in JSON lines, and scores the rewrites of a rewriter on them.

A line is `{"lang", "text", "standalone", "entity", "accept", "history"}`: a question with `standalone` must stay
unchanged; any other has to contain one of `accept` when it is rewritten, all spellings and inflections of `entity`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from assistant.routing.labelled_prompts import read_lines
from assistant.routing.language import Language
from assistant.routing.normal_form import plain
from assistant.turn import Turn

FOLLOW_UPS = Path(__file__).with_name("data") / "development_follow_ups.jsonl"
"""Follow-ups that the rules were written with."""
TRAINING_FOLLOW_UPS = FOLLOW_UPS.with_name("training_follow_ups.jsonl")
"""Follow-ups with longer conversations and several entities, for rewriters that learn; the rules have not used them."""
EVALUATION_FOLLOW_UPS = FOLLOW_UPS.with_name("evaluation_follow_ups.jsonl")
"""Follow-ups whose author had seen neither the rules nor the development set. Do not tune rules on them."""


class _Message(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: str


class FollowUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question after a conversation, with the entity that it must name to stand alone."""

    lang: Language
    text: str
    standalone: bool
    entity: str
    accept: list[str]
    history: list[_Message]

    @property
    def turns(self) -> list[Turn]:
        """The turns before the follow-up question, oldest first."""
        return [Turn(each.role, each.content) for each in self.history]


@dataclass
class RewritingScore:
    """Counts of a rewriter: follow-ups that got the right entity, and stand-alone questions that it changed."""

    follow_ups: int = 0
    right_entity: int = 0
    standalone: int = 0
    changed: int = 0

    def add(self, wanted: FollowUp, rewritten: str) -> None:
        """Count one labelled question, `wanted`, by whether its rewrite has the right entity or is wrongly changed."""
        if wanted.standalone:
            self.standalone += 1
            self.changed += rewritten != wanted.text
        else:
            self.follow_ups += 1
            self.right_entity += rewritten != wanted.text and any(
                plain(each) in plain(rewritten) for each in wanted.accept
            )

    @property
    def entity_share(self) -> float:
        """Share, 0 to 1, of follow-up questions whose rewrite names the right entity."""
        return self.right_entity / self.follow_ups if self.follow_ups else 0.0

    @property
    def changed_share(self) -> float:
        """Share, 0 to 1, of stand-alone questions that the rewriter changed."""
        return self.changed / self.standalone if self.standalone else 0.0


def read_follow_ups(path: Path = FOLLOW_UPS) -> list[FollowUp]:
    """Read a file of labelled follow-up questions in JSON lines; the default is the set of the repository.

    Raises:
        InvalidPrompts: a line is invalid; the text names its number.
        OSError: the file can't be read.
    """
    return read_lines(path, FollowUp)


def score(pairs: Iterable[tuple[FollowUp, str]]) -> RewritingScore:
    """Return the score of a rewriter from pairs of a labelled question and its rewrite."""
    total = RewritingScore()
    for wanted, rewritten in pairs:
        total.add(wanted, rewritten)
    return total
