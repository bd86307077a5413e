"""The input of a custom tool is the same however its call's arguments are split."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.answers.responses.custom_tool_input import CustomToolInput


def decoded(pieces: list[str]) -> str:
    reader = CustomToolInput()
    return "".join([reader.take(piece) for piece in pieces]) + reader.rest()


@given(st.text(), st.booleans(), st.lists(st.integers(0, 200), max_size=6))
def test_any_split_gives_the_text(text: str, escaped: bool, cuts: list[int]) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=escaped)
    places = [0, *sorted(min(cut, len(arguments)) for cut in cuts), len(arguments)]
    assert decoded([arguments[a:b] for a, b in itertools.pairwise(places)]) == text


def test_halves_of_a_character_are_held_back() -> None:
    reader = CustomToolInput()
    assert reader.take('{"input": "\\\\\\ud83d') == "\\"
    assert reader.take('\\ude00\\\\ud83d"}') == "😀\\ud83d"


@pytest.mark.parametrize("arguments", ["{}", '{"other": 1}', "text"])
def test_other_arguments_are_the_input_as_they_are(arguments: str) -> None:
    assert decoded([arguments]) == arguments
