"""Share of labelled questions that the tools' own parsers understand, for each tool, language and part."""

from __future__ import annotations

import pytest

from tests.assistant.tools.labelled_questions import LANGUAGES, PARTS, TOOLS, found, is_right, questions

FLOOR = 0.92


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("tool", TOOLS)
def test_most_questions_are_understood(tool: str, language: str, part: str) -> None:
    asked = questions(tool, language, part)
    wrong = [(each["text"], found(tool, each)) for each in asked if not is_right(tool, each)]
    assert len(asked) == 33
    assert 1 - len(wrong) / len(asked) >= FLOOR, wrong


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_calculation_that_is_read_is_the_one_that_is_asked_for(language: str) -> None:
    asked = [each for part in PARTS for each in questions("mathematics", language, part)]
    read = [each for each in asked if found("mathematics", each) is not None]
    assert [each["text"] for each in read if not is_right("mathematics", each)] == []


@pytest.mark.parametrize("tool", TOOLS)
def test_questions_differ(tool: str) -> None:
    asked = [each for language in LANGUAGES for part in PARTS for each in questions(tool, language, part)]
    assert len(asked) == len({(each["lang"], each["text"].lower()) for each in asked}) == 132
