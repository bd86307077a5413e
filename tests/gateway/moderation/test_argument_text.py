"""Arguments of calls as moderation reads them: in any pieces, with the escapes of their strings decoded."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.moderation.argument_text import ArgumentText

STRINGS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\n/\U0001d41b\u00ad'))


def read(*pieces: str) -> str:
    text = ArgumentText()
    return "".join(map(text.take, pieces))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (r'{"pi\u0070e": ["bo\u006db", 4, null]}', '{"pipe": ["bomb", 4, null]}'),
        (r'{"a": "\ud835\udc1b \"q\" \\ \n"}', '{"a": "\U0001d41b "q" \\ \n"}'),
        (r'{"a": "\\u0062"}', r'{"a": "\u0062"}'),  # an escaped backslash
        (r'{"a": "\q \uzzzz \ud835"}', '{"a": "\\q \\uzzzz \ud835"}'),
        ('"a\nb"', '"a\nb"'),
        (r"free \u0062 text", r"free \u0062 text"),
        ("", ""),
    ],
)
def test_escapes_in_strings_are_decoded(arguments: str, text: str) -> None:
    assert read(arguments) == text
    assert read(*arguments) == text


@given(st.dictionaries(STRINGS, STRINGS), st.booleans(), st.data())
def test_pieces_give_the_text_of_the_whole(value: Any, ascii_only: bool, data: st.DataObject) -> None:
    arguments = json.dumps(value, ensure_ascii=ascii_only)
    cuts = data.draw(st.lists(st.integers(0, len(arguments)), max_size=5).map(sorted))
    pieces = [arguments[start:end] for start, end in pairwise([0, *cuts, len(arguments)])]
    members = [f'"{name}": "{each}"' for name, each in value.items()]
    assert read(*pieces) == "{" + ", ".join(members) + "}"


def test_an_escape_is_read_with_its_rest() -> None:
    text = ArgumentText()
    assert [text.take(piece) for piece in ('"a\\', "u00", "62\\ud835", "\\u", 'dc1b"')] == [
        '"a',
        "",
        "b",
        "",
        '\U0001d41b"',
    ]
