"""The scanner accepts exactly what Python's JSON parser accepts."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_worker.worker.text.tool_calls.json_scanner import MAX_DEPTH, JsonScanner

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)


def scan(text: str) -> bool:
    """Return whether `text` is exactly one complete value."""
    scanner = JsonScanner()
    return all(map(scanner.push, text)) and scanner.done


def parses(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_every_json_value_is_accepted(value: Any, ascii_only: bool, indent: int | None) -> None:
    assert scan(json.dumps([value], ensure_ascii=ascii_only, indent=indent))


@given(values, st.data())
def test_a_changed_character_is_judged_as_by_python_s_parser(value: Any, data: st.DataObject) -> None:
    text = json.dumps([value])
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.sampled_from('"\\{}[],:-+.0e1tfn \n\x01u')) + text[at + 1 :]
    assert scan(changed) == (parses(changed) and changed.strip() == changed and changed[0] in '{["')


@pytest.mark.parametrize(
    "text", ["[01]", "[1.]", "[.5]", "[-]", "[1e]", "[+1]", "[NaN]", "[tru]", '["\\x"]', "[1,]", "{,}"]
)
def test_invalid_json(text: str) -> None:
    assert not scan(text)


def test_depth_is_bounded() -> None:
    assert scan("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert not scan("[" * 10_000 + "]" * 10_000)
