"""Rules that make follow-ups stand alone, on the labelled set and in detail."""

from __future__ import annotations

import pytest

from assistant.routing.rule_rewriter import is_follow_up, resolve, stand_alone
from assistant.turn import Turn
from benchmarks.routing.follow_up_set import read_follow_ups, score


def conversation(*texts: str) -> list[Turn]:
    return [Turn("assistant" if number % 2 else "user", text) for number, text in enumerate(texts)]


@pytest.mark.parametrize("lang", ["en", "pl"])
def test_the_labelled_set(lang: str) -> None:
    """At least 80 % get the right entity, at most 5 % of the stand-alone questions change."""
    found = [each for each in read_follow_ups() if each.lang == lang]
    total = score((each, stand_alone(each.text, each.turns)) for each in found)
    assert total.entity_share >= 0.8
    assert total.changed_share <= 0.05


@pytest.mark.parametrize(
    ("question", "before", "rewritten"),
    [
        ("And on Sunday?", "Weather in Prague on Saturday?", "Weather in Prague on Sunday?"),
        ("A w Pradze?", "Czy w Wiedniu pada?", "Czy w Pradze pada?"),
        ("what about madrid?", "is it raining in lisbon?", "is it raining in madrid?"),
        ("is it hot there?", "When was Rome founded?", "is it hot in Rome?"),
        ("and divided by 12?", "what is 3456 + 1200", "(3456 + 1200) divided by 12?"),
        ("add a second moon", "paint an alien desert", "paint an alien desert, add a second moon"),
        (
            "what does it say about pay?",
            "Summarise the attached contract",
            "what does the attached contract say about pay?",
        ),
        ("Czy będzie padać?", "Jaka pogoda w Łodzi?", "Czy będzie padać w Łodzi?"),
    ],
)
def test_rewrites(question: str, before: str, rewritten: str) -> None:
    assert stand_alone(question, conversation(before, "Yes.")) == rewritten


@pytest.mark.parametrize(
    ("question", "before", "answer", "rewritten"),
    [
        ("And now differentiate it", "integrate 3x^2 + 2", "`x^3 + 2*x + C`", "differentiate (x^3 + 2*x)"),
        ("now differentiate that result", "integrate 1/(1+x^2)", "atan(x) + C", "differentiate atan(x)"),
        ("a teraz zróżniczkuj to", "scałkuj x^2 + 1", "x^3/3 + x + C", "zróżniczkuj (x^3/3 + x)"),
        ("add 10 to it", "what is 15% of 240", "36", "add 10 to 36"),
        ("and divided by 12?", "what is 3456 + 1200", "4656", "4656 divided by 12?"),
        ("what is it at x = 2?", "differentiate x^3", "`3*x^2`", "what is 3*x^2 at x = 2?"),
        ("what is it at x = 2?", "integrate x^2 from 0 to 3", "9", "what is x^2 at x = 2?"),
        ("now plot the function", "differentiate x^3", "`3*x^2`", "plot x^3"),
        ("from 0 to pi", "integrate cos(2x)", "`sin(2*x)/2 + C`", "(cos(2x)) from 0 to pi"),
        ("and the second derivative?", "differentiate x^3", "`3*x^2`", "(x^3) the second derivative?"),
        ("plot it", "solve x^2 = 4", "x = -2, x = 2", "plot x^2 = 4"),
        ("now differentiate it", "integrate 3x^2", "I could not find it.", "differentiate 3x^2"),
    ],
)
def test_a_pronoun_after_a_calculation_is_its_result(question: str, before: str, answer: str, rewritten: str) -> None:
    assert stand_alone(question, conversation(before, answer)) == rewritten


def test_references_reach_over_several_turns() -> None:
    history = conversation("What is the weather in Graz?", "Sunny.", "and tomorrow?", "Rain.")
    assert stand_alone("and on Friday?", history) == "What is the weather in Graz on Friday?"


@pytest.mark.parametrize(
    ("weather", "person", "question", "rewritten"),
    [
        (
            "What is the weather in Gdańsk?",
            "Who was Albert Einstein?",
            "What is the weather in the city we discussed?",
            "What is the weather in Gdańsk?",
        ),
        (
            "Jaka jest pogoda w Gdańsku?",
            "Kim był Mikołaj Kopernik?",
            "Jaka jest pogoda w mieście, o którym rozmawialiśmy?",
            "Jaka jest pogoda w Gdańsku?",
        ),
    ],
)
def test_a_person_is_no_place(weather: str, person: str, question: str, rewritten: str) -> None:
    history = conversation(weather, "Cloudy, 5 °C.", person, "A scientist, born in Ulm.")
    assert stand_alone(question, history) == rewritten


@pytest.mark.parametrize("topic", [r"\usepackage", r"\d", r"\1", r"\g<0>", r"\alpha"])
@pytest.mark.parametrize("question", ["How do I use it?", "Where is it used?", "What does he do?", "Jak go użyć?"])
def test_backslashes_in_the_conversation_stay_as_they_are(topic: str, question: str) -> None:
    history = conversation(f"What is {topic}?", "A word.")
    rewritten = stand_alone(question, history)
    assert rewritten == question or topic in rewritten
    stand_alone("and in Paris?", [*history, *conversation(question, "So.")])


def test_without_turns_every_question_stands_alone() -> None:
    assert not is_follow_up("When did he die?", [])
    assert resolve("When did he die?", []) is None


def test_a_follow_up_that_nothing_resolves_stays() -> None:
    history = conversation("hello", "hi, how can I help?")
    assert is_follow_up("When did he die?", history)
    assert stand_alone("When did he die?", history) == "When did he die?"


def test_long_questions_and_conversations_take_little_time() -> None:
    history = conversation(*["and what about it in the city? " * 200] * 200)
    assert stand_alone("it " * 10_000, history) == "it " * 10_000
    stand_alone("what is it?", history)
    digits = "7" * 200_000
    history = conversation(*[f"what is 2 + 2? {digits}", digits] * 200)
    assert stand_alone(f"divide it by {digits}", history) == f"divide it by {digits}"
    stand_alone("now divide it by 2", history)
