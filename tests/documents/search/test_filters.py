"""Filters on attributes: comparisons of values of one type, missing attributes, and combinations."""

from __future__ import annotations

from typing import Any

import pytest

from documents.search.filters import AttributeValue, Combination, Comparison

ATTRIBUTES: dict[str, AttributeValue] = {"year": 2026.0, "kind": "umowa", "signed": True}


@pytest.mark.parametrize(
    ("key", "operator", "value", "passes"),
    [
        ("year", "eq", 2026, True),
        ("year", "ne", 2026, False),
        ("year", "eq", "2026", False),
        ("year", "ne", "2026", True),
        ("year", "gt", 2025, True),
        ("year", "gt", 2026, False),
        ("year", "gte", 2026, True),
        ("year", "lt", 2026, False),
        ("year", "lt", 2026.5, True),
        ("year", "lte", 2026, True),
        ("year", "lt", "3000", False),
        ("kind", "gt", "faktura", True),
        ("kind", "in", ["faktura", "umowa"], True),
        ("kind", "in", ["faktura"], False),
        ("kind", "in", [], False),
        ("kind", "nin", ["faktura"], True),
        ("kind", "nin", ["umowa"], False),
        ("signed", "eq", True, True),
        ("signed", "eq", 1, False),
        ("signed", "in", [1.0, "true"], False),
        ("pages", "eq", 1, False),
        ("pages", "ne", 1, True),
        ("pages", "nin", [1], True),
        ("pages", "in", [""], False),
        ("pages", "gte", 0, False),
    ],
)
def test_a_comparison_is_of_values_of_one_type(key: str, operator: Any, value: Any, passes: bool) -> None:
    assert Comparison(key, operator, value).passes(ATTRIBUTES) is passes


def test_combinations_are_nested() -> None:
    yes, no = Comparison("year", "eq", 2026), Comparison("year", "eq", 2025)
    assert Combination("or", [no, yes]).passes(ATTRIBUTES)
    assert not Combination("and", [no, yes]).passes(ATTRIBUTES)
    assert Combination("and", [yes, Combination("or", [no, yes])]).passes(ATTRIBUTES)
    assert not Combination("or", [no, Combination("and", [yes, no])]).passes(ATTRIBUTES)
