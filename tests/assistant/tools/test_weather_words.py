"""Word lists of questions about the weather."""

from __future__ import annotations

import pytest

from assistant.tools import weather_words
from assistant.tools.folding import without_diacritics

LISTS = ("STRONG", "WEAK", "ORIGIN", "INTRODUCING", "NEVER_PLACES", "JOINING", "KINDS", "STOPS", "NO_PLACES")


@pytest.mark.parametrize("name", LISTS)
def test_words_are_as_questions_are_compared_with_them(name: str) -> None:
    for word in getattr(weather_words, name):
        assert word == without_diacritics(word)


def test_words_of_the_weather_are_recognised() -> None:
    for word in ("raining", "sunny", "pogody", "padac", "sniegu", "goraco"):
        assert weather_words.WEATHER.fullmatch(word), word
    for word in ("london", "krakow", "padwa", "windsor", "who"):
        assert not weather_words.WEATHER.fullmatch(word), word
