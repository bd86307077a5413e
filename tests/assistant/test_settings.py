"""Settings of an assistant process."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from assistant.settings import AssistantSettings


def test_an_assistant_needs_no_settings() -> None:
    settings = AssistantSettings()
    assert (settings.assistant_id, settings.assistant_config) == ("assistant-1", None)


@pytest.mark.parametrize(
    "fields",
    [{"assistant_id": "a b"}, {"assistant_id": ""}, {"no_worker_timeout": 0}, {"drain_grace": -1}, {"ops_port": 70000}],
)
def test_an_invalid_setting_is_an_error(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AssistantSettings(**fields)  # type: ignore[arg-type]


def test_passwords_are_not_shown() -> None:
    settings = AssistantSettings(amqp_url="amqp://u:sesame@h", control_secret="sesame")
    assert "sesame" not in repr(settings)
