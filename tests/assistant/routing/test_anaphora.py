"""Noun phrases for what was mentioned before, and the kind of thing that they name."""

from __future__ import annotations

import pytest

from assistant.routing.anaphora import (
    OF_THING,
    PERSON_NOUN,
    THAT_DOCUMENT,
    THING_NOUN,
    Reference,
    demonstrative,
    mentioned,
)
from assistant.turn import Turn

HISTORY = [Turn("user", "Solve x^2 = 4 with the uploaded report"), Turn("assistant", "2 or -2")]


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("what is the weather in the city we discussed earlier?", Reference.PLACE),
        ("jaka jest pogoda w miescie, o ktorym rozmawialismy?", Reference.PLACE),
        ("how old was the mathematician you mentioned?", Reference.PERSON),
        ("gdzie urodzil sie wspomniany wynalazca?", Reference.PERSON),
        ("divide the previous result by 4", Reference.EXPRESSION),
        ("podziel poprzedni wynik przez 4", Reference.EXPRESSION),
        ("who signed the contract i asked about?", Reference.DOCUMENT),
        ("make the picture you drew darker", Reference.REQUEST),
        ("when was the book we discussed published?", Reference.THING),
        ("what is the most famous book we have?", None),
        ("co to jest opisany okrag?", None),
    ],
)
def test_what_was_mentioned(text: str, reference: Reference | None) -> None:
    assert mentioned(text, HISTORY, pictures=True) is reference


def test_nothing_was_mentioned_that_the_turns_lack() -> None:
    said = [Turn("user", "hello")]
    assert mentioned("divide the previous result by 4", said, pictures=False) is None
    assert mentioned("who signed the contract i asked about?", said, pictures=False) is None
    assert mentioned("make the picture you drew darker", said, pictures=False) is Reference.THING


def test_nouns() -> None:
    assert THING_NOUN.search("in which year did the ship sink?")
    assert THING_NOUN.search("w ktorym roku statek zatonal?")
    assert not THING_NOUN.search("what is the book of kells?")
    assert PERSON_NOUN.search("when did the composer die?")
    assert not PERSON_NOUN.search("who is the president of mexico?")
    assert THAT_DOCUMENT.search("who wrote that document?")
    assert OF_THING.search("czy powstal na jej podstawie film?")


@pytest.mark.parametrize("pattern", [PERSON_NOUN, THING_NOUN, THAT_DOCUMENT, OF_THING])
def test_patterns_take_little_time_on_hostile_text(pattern) -> None:  # type: ignore[no-untyped-def]
    for text in ("the ship " * 300, "a" * 3000, "ten " * 800, "and now " * 400):
        pattern.search(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("who composed that waltz?", Reference.THING),
        ("kiedy zmarl ten pisarz?", Reference.PERSON),
        ("ilu mieszkancow ma to miasto?", None),
        ("what river flows through that city?", Reference.PLACE),
        ("what should i do this weekend?", None),
        ("co robic w ten weekend?", None),
    ],
)
def test_a_demonstrative_with_any_noun_refers_to_what_was_mentioned(text: str, kind: Reference | None) -> None:
    assert demonstrative(text) is kind
