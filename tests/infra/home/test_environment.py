"""Settings from the environment: unknown names and bad values are refused in one line."""

from __future__ import annotations

import pytest
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.home.environment import check_names, load, variables
from runtime.lifecycle import StartupError


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True)

    port: int = Field(8000, ge=1)
    model: str


def test_a_misspelt_variable_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(StartupError, match="HEADRACE_PROT is not a setting; did you mean HEADRACE_PORT"):
        check_names({"HEADRACE_PROT": "1"}, variables([Settings]))


def test_known_and_foreign_variables_pass() -> None:
    check_names({"HEADRACE_PORT": "1", "headrace_model": "x", "PATH": "/bin"}, variables([Settings]))


def test_a_bad_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PORT", "eighty")
    with pytest.raises(StartupError, match=r"HEADRACE_PORT=eighty: .*integer"):
        load(Settings, model="m")


def test_a_missing_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartupError, match=r"^HEADRACE_MODEL: Field required"):
        load(Settings)


def test_an_option_wins_over_the_environment_and_none_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PORT", "1")
    monkeypatch.setenv("HEADRACE_MODEL", "from-environment")
    settings = load(Settings, port=2, model=None)
    assert (settings.port, settings.model) == (2, "from-environment")
