"""Amounts: exact both ways, and nothing else is one (docs/design/hostile-input.md#H88)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth_billing.errors import UnacceptableAmount
from auth_billing.money.amounts import LARGEST, check_amount, nano_of, usd


@given(st.integers(1, LARGEST))
def test_what_is_written_is_what_is_read(nano: int) -> None:
    assert nano_of(usd(nano)) == nano


def test_how_amounts_look() -> None:
    assert [usd(each) for each in (0, 1, 150_000_000, 12_500_000_000, -2_000_000_000)] == [
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
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(UnacceptableAmount):
        nano_of(text)


@pytest.mark.parametrize("value", [-1, 0, 0.001, 1.0, 1e400, "1e3", 2**63, float("nan"), "१२", True, None, LARGEST + 1])
def test_what_is_no_integer_amount(value: object) -> None:
    with pytest.raises(UnacceptableAmount):
        check_amount(value)
