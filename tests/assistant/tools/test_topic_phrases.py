"""Phrases that frame topics: what they are part of, and what they leave alone."""

from __future__ import annotations

import pytest

from assistant.tools import topic_phrases as phrases


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("please tell me", "tell me"),
        ("tell me about jazz", "jazz"),
        ("a short summary of jazz", "jazz"),
        ("proszę, powiedz", "powiedz"),
        ("opowiedz mi o jazzie", "jazzie"),
        ("Telling lies", "Telling lies"),
    ],
)
def test_frames(text: str, rest: str) -> None:
    assert phrases.FRAME.sub("", text, count=1) == rest


def test_names_keep_the_words_that_join_them() -> None:
    found = [
        match[0] for match in phrases.NAME.finditer("the Treaty of Westphalia was signed in Osnabrück and Münster")
    ]
    assert found == ["Treaty of Westphalia", "Osnabrück and Münster"]


def test_second_questions_and_afterthoughts_are_cut() -> None:
    assert phrases.SECOND_CLAUSE.sub("", "who built it and why was it built") == "who built it"
    assert phrases.AFTERTHOUGHT.sub("", "Stefan Banach, ten matematyk ze Lwowa") == "Stefan Banach"
    assert phrases.AFTERTHOUGHT.sub("", "Paris, Texas") == "Paris, Texas"
    assert phrases.SECOND_CLAUSE.sub("", "Tristan and Isolde") == "Tristan and Isolde"
