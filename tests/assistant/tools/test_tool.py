"""Messages of tool errors: a sentence in the language of the conversation, with bounded values."""

from __future__ import annotations

import pytest

from assistant.tools import tool
from assistant.tools.sentences import Sentence

ERRORS: list[type[tool.ToolError]] = [
    tool.NotFound,
    tool.Unavailable,
    tool.TooLarge,
    tool.Refused,
    tool.InvalidArguments,
    tool.ToolOff,
]


@pytest.mark.parametrize("error", ERRORS)
def test_each_error_has_a_code_and_a_sentence_in_both_languages(error: type[tool.ToolError]) -> None:
    assert error().message("en").endswith(".")
    assert error().message("pl").endswith(".")
    assert error().message("pl") != error().message("en")
    assert str(error()) == error().message("en")


def test_codes_are_distinct() -> None:
    assert len({error.code for error in ERRORS}) == len(ERRORS)


def test_regions_and_unknown_languages() -> None:
    error = tool.NotFound(Sentence("No place “{place}”.", "Nie ma miejsca „{place}”."), place="Lądek")
    assert error.message("pl-PL") == error.message("PL") == "Nie ma miejsca „Lądek”."
    assert error.message("de") == error.message("") == "No place “Lądek”."


def test_values_are_cut_kept_on_one_line_and_are_not_templates() -> None:
    error = tool.NotFound(Sentence("No “{place}”.", "Brak „{place}”."), place="{0} {place}\n" + "x" * 500)
    assert error.message("en").startswith("No “{0} {place} xxx")
    assert len(error.message("en")) < 100
