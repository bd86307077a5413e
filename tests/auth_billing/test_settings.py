"""Settings of the billing process: from the environment, checked, and without secrets in their text."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from auth_billing.settings import BillingSettings


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_MONGODB_URL", "mongodb://host/db")
    monkeypatch.setenv("HEADRACE_OPS_PORT", "9999")
    settings = BillingSettings()
    assert (settings.mongodb_url, settings.ops_port) == ("mongodb://host/db", 9999)


@pytest.mark.parametrize(
    "wrong",
    [
        {"alert_thresholds": "50;80"},
        {"alert_thresholds": "0,50"},
        {"alert_thresholds": ""},
        {"ops_port": 65536},
        {"log_level": "loud"},
        {"unknown": 1},
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BillingSettings(**wrong)


def test_urls_and_secrets_are_not_in_the_text_of_the_settings() -> None:
    secrets: dict[str, Any] = dict.fromkeys(("amqp_url", "mongodb_url", "alert_url", "alert_secret"), "sesame")
    assert "sesame" not in repr(BillingSettings(**secrets))
