"""The detector of follow-ups: what a question lacks, and questions that lack nothing."""

from __future__ import annotations

import pytest

from assistant.routing.anaphora import Reference
from assistant.routing.follow_ups import is_picture_request, reference_of
from assistant.routing.normal_form import plain
from assistant.turn import Turn


@pytest.mark.parametrize(
    ("question", "before", "reference"),
    [
        ("Is it cold there?", "Tell me about Oslo", Reference.PLACE),
        ("Jak tam jest?", "Opowiedz o Oslo", Reference.PLACE),
        ("Where did he live?", "Who was Kant?", Reference.PERSON),
        ("Gdzie on mieszkał?", "Kim był Kant?", Reference.PERSON),
        ("How old is it?", "Where is the Colosseum?", Reference.THING),
        ("Kiedy umarł?", "Kim był Kant?", Reference.TOPIC),
        ("now plot it", "simplify x + x", Reference.EXPRESSION),
        ("who signed it?", "Summarise my contract", Reference.DOCUMENT),
        ("make it blue", "Draw a bird", Reference.REQUEST),
        ("and tomorrow?", "Rain in Cork?", Reference.QUESTION),
    ],
)
def test_follow_ups(question: str, before: str, reference: Reference) -> None:
    assert reference_of(question, [Turn("user", before), Turn("assistant", "Well.")]) is reference


@pytest.mark.parametrize(
    "question",
    [
        "Is it raining in Cork?",
        "How long does it take to fly to Rome?",
        "Who was Kant and when did he die?",
        "translate it into German",
        "a dlaczego?",
        "Are there wolves in Poland?",
        "Co to jest tlen?",
        "And who was Hegel?",
        "",
        "word " * 31,
    ],
)
def test_questions_that_stand_alone(question: str) -> None:
    history = [Turn("user", "What is the weather in Oslo?"), Turn("assistant", "Cold.")]
    assert reference_of(question, history) is None


def test_requests_for_pictures() -> None:
    assert is_picture_request(plain("Narysuj żabę"))
    assert not is_picture_request(plain("What is a frog?"))
