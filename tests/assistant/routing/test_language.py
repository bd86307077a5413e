"""The language of a question."""

from __future__ import annotations

import pytest

from assistant.routing.labelled_prompts import read_prompts
from assistant.routing.language import language_of
from assistant.turn import Turn


@pytest.mark.parametrize("lang", ["en", "pl"])
def test_nearly_all_training_prompts_are_recognised(lang: str) -> None:
    prompts = [each for each in read_prompts() if each.lang == lang]
    wrong = [each.text for each in prompts if language_of(each.text, each.turns) != lang]
    assert len(wrong) <= 0.03 * len(prompts), wrong


def test_a_text_without_evidence_has_the_language_of_the_conversation() -> None:
    polish = [Turn("user", "Ile to jest 2 + 2?"), Turn("assistant", "4")]
    assert language_of("3 * 7", polish) == "pl"
    assert language_of("3 * 7") == "en"
    assert language_of("3 * 7", [Turn("assistant", "Cześć")]) == "en"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What is the weather in Gdańsk?", "en"),
        ("Who was Lech Wałęsa?", "en"),
        ("Gdańsk", "pl"),
        ("Łódź jutro", "pl"),
        ("gdzie leży Łódź?", "pl"),
        ("JAKA POGODA W ŁODZI", "pl"),
    ],
)
def test_a_polish_name_does_not_make_a_sentence_polish(text: str, language: str) -> None:
    assert language_of(text) == language
