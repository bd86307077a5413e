"""Request model of monthly budgets."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.organization.spend_limits import SpendLimitUpdate

VALID = {"threshold_amount": 250, "currency": "USD", "interval": "month"}


def test_cents_become_nano_usd() -> None:
    assert SpendLimitUpdate.parse(VALID).nano_usd == 2_500_000_000


@pytest.mark.parametrize("change", [{"currency": "EUR"}, {"interval": "day"}, {"threshold_amount": 0}])
def test_other_units_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SpendLimitUpdate.parse(VALID | change)
    assert caught.value.param in change
