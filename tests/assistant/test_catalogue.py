"""The catalogue file: errors are one line, assistants do not answer for one another, and secrets are elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.catalogue import DEFAULT, read, weather_key
from runtime.lifecycle import StartupError

GOOD = """
[models.helper]
answers_with = "qwen"
tools = ["math", "weather"]
routing = { way = "function", model = "router" }
rewrites = "model"
[models.other]
[tools.weather]
service = "openweather"
api_key_env = "WEATHER_KEY"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "assistant.toml"
    path.write_text(text)
    return path


def test_a_valid_file(tmp_path: Path) -> None:
    catalogue = read(write(tmp_path, GOOD))
    helper, other = catalogue.models["helper"], catalogue.models["other"]
    assert (helper.answers_with, helper.tools, helper.routing.model) == ("qwen", ("math", "weather"), "router")
    assert (other.answers_with, other.routing.way, other.rewrites) == (None, "classifier", "rules")
    key = weather_key(catalogue, {"WEATHER_KEY": " secret\n"})
    assert key is not None
    assert key.get_secret_value() == "secret"
    assert "secret" not in str(key)


def test_without_a_file_nothing_of_the_internet_is_asked() -> None:
    assert list(DEFAULT.models) == ["assistant"]
    assert (DEFAULT.tools.weather, DEFAULT.tools.wikipedia, DEFAULT.tools.web_page) == (None, False, False)
    assert weather_key(DEFAULT, {}) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"qwen"', '"other"', "model 'helper' calls 'other', which is an assistant too"),
        ('"qwen"', '"helper"', "model 'helper' calls 'helper', which is an assistant too"),
        ('model = "router"', 'model = "other"', "model 'helper' calls 'other'"),
        ('"math"', '"rm"', "models.helper.tools.0."),
        ('model = "router"', "arguments = true", "models.helper.routing: Value error, `arguments` is for the way"),
        ('"function"', '"guess"', "models.helper.routing.way: "),
        ("rewrites", "rewrite", "models.helper.rewrite: Extra inputs are not permitted"),
        ('api_key_env = "WEATHER_KEY"', "", "tools.weather: Value error, `api_key_env` is for"),
        ('"openweather"', '"open-meteo"', "tools.weather: Value error, `api_key_env` is for"),
        ("[models.other]", "[models.other", "is not TOML"),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(StartupError, match=r"assistant\.toml") as error:
        read(write(tmp_path, GOOD.replace(old, new)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_an_empty_catalogue_are_errors(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="cannot read"):
        read(tmp_path / "assistant.toml")
    with pytest.raises(StartupError, match="models"):
        read(write(tmp_path, "[models]"))


@pytest.mark.parametrize("value", [None, "", "  ", "é", "a\nb"])
def test_a_missing_or_unusable_key_is_an_error(tmp_path: Path, value: str | None) -> None:
    catalogue = read(write(tmp_path, GOOD))
    with pytest.raises(StartupError, match="WEATHER_KEY"):
        weather_key(catalogue, {} if value is None else {"WEATHER_KEY": value})
