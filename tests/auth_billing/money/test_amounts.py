"""Amounts: parsed and formatted exactly, malformed ones refused (docs/design/hostile-input.md#H88)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth_billing.errors import UnacceptableAmount
from auth_billing.money.amounts import MAX_AMOUNT, check_amount, format_usd, parse_usd


@given(st.integers(1, MAX_AMOUNT))
def test_an_amount_survives_formatting_and_parsing(nano: int) -> None:
    assert parse_usd(format_usd(nano)) == nano


def test_amounts_are_formatted_with_two_to_nine_places() -> None:
    assert [format_usd(each) for each in (0, 1, 150_000_000, 12_500_000_000, -2_000_000_000)] == [
        "0.00",
        "0.000000001",
        "0.15",
        "12.50",
        "-2.00",
    ]


@pytest.mark.parametrize(
    "text",
    ["", ".", "-1", "+1", "0", "0.0", "0.0000000001", "1e3", "1e400", "NaN", "१२", "1,5", "1_0", " 1", "9" * 30, "1."],
)
def test_malformed_amounts_are_refused(text: str) -> None:
    with pytest.raises(UnacceptableAmount):
        parse_usd(text)


@pytest.mark.parametrize(
    "value", [-1, 0, 0.001, 1.0, 1e400, "1e3", 2**63, float("nan"), "१२", True, None, MAX_AMOUNT + 1]
)
def test_values_other_than_integers_in_range_are_refused(value: object) -> None:
    with pytest.raises(UnacceptableAmount):
        check_amount(value)
