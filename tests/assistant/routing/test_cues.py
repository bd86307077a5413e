"""Cues: the features by which the classifier knows tools from few examples."""

from __future__ import annotations

import pytest

from assistant.routing.cues import GROUPS, cues


@pytest.mark.parametrize(
    ("question", "group"),
    [
        ("Could you draw a duck", "image.first"),
        ("czy możesz narysować kaczkę", "image.first"),
        ("a nice logo", "image.picture"),
        ("w stylu anime", "image.style"),
        ("Prognoza na jutro", "weather.word"),
        ("Pada w Łodzi?", "weather.sky"),
        ("Rain in York?", "weather.place"),
        ("deszcz jutro?", "weather.time"),
        ("x² + 1", "math.symbol"),
        ("oblicz całkę", "math.word"),
        ("Kto napisał Lalkę?", "wikipedia.question"),
        ("we wgranej umowie", "documents.both"),
        ("Napisz wiersz", "none.write.first"),
        ("how do I draw a hand", "none.howto.first"),
        ("xyzzy", "none"),
    ],
)
def test_questions_have_the_cue(question: str, group: str) -> None:
    assert cues(question).get(group)


@pytest.mark.parametrize("question", ["draw a conclusion from that", "narysuj wnioski", "paint it in words"])
def test_drawing_that_is_none(question: str) -> None:
    assert "image.first" not in cues(question)


def test_counts_are_bounded() -> None:
    assert max(cues("rain " * 1000).values()) == 3


@pytest.mark.parametrize("name", GROUPS)
def test_patterns_take_linear_time_on_hostile_text(name: str) -> None:
    """The classifier cuts a question to 2000 characters; a pattern must not blow up on them."""
    for text in ("draw " * 400, "a" * 2000, "1 " * 1000, "make " * 400, "please " * 290, "x+" * 1000, "jak " * 500):
        GROUPS[name].findall(text)
