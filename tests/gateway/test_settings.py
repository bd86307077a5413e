"""The gateway's settings: limits are validated, and waits depend on the service class."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from auth_billing.rate_limits.limits import SubjectKind
from gateway.settings import GatewaySettings
from router.messages import ServiceClass


def test_flex_may_wait_longer_but_never_shorter() -> None:
    waits = GatewaySettings(max_wait=10, max_wait_flex=60).max_waits
    assert waits == {ServiceClass.PRIORITY: 10, ServiceClass.DEFAULT: 10, ServiceClass.FLEX: 60}
    assert GatewaySettings(max_wait=10, max_wait_flex=1).max_waits[ServiceClass.FLEX] == 10


def test_default_limits_are_parsed_by_kind() -> None:
    limits = GatewaySettings(limits_per_key="60 requests/minute", limits_per_project="5 concurrent").default_limits
    assert limits[SubjectKind.KEY].requests_per_minute == 60
    assert limits[SubjectKind.PROJECT].concurrent_requests == 5
    assert limits[SubjectKind.MODEL].requests_per_minute is None


@pytest.mark.parametrize(
    "setting",
    [
        {"limits_per_key": "many"},
        {"gateway_id": "a b"},
        {"port": 70_000},
        {"max_wait": 0},
        {"max_choices": 129},
        {"max_search_tokens": 255},
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GatewaySettings(**setting)


def test_secrets_are_not_in_the_representation() -> None:
    assert "hunter2" not in repr(GatewaySettings(api_key_pepper="hunter2", control_secret="hunter2"))
