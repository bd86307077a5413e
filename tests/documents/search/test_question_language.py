"""The language of a question, by its words and letters."""

from __future__ import annotations

import pytest

from documents.search.question_language import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("When is the rent due?", "en"),
        ("Kiedy jest płatny czynsz?", "pl"),
        ("ile wynosi kaucja", "pl"),
        ("Kto jest autorem książki How to Cook?", "pl"),
        ("What does „czynsz” mean in the lease?", "en"),
        ("rent", None),
        ("kot?", None),
        ("Was ist die Kündigungsfrist?", None),
        ("Quelle est la capitale ?", None),
        ("Kdy je splatný nájem za říjen?", None),
        ("", None),
    ],
)
def test_the_language_of_a_question(text: str, language: str | None) -> None:
    assert language_of(text) == language
