"""Weather conditions in words, and those of OpenWeather as WMO codes."""

from __future__ import annotations

import pytest

from assistant.tools.weather_codes import DESCRIPTIONS, description, wmo_code


def test_every_code_has_words_in_both_languages() -> None:
    assert len(DESCRIPTIONS) == 28
    assert all(description(code, "en") != description(code, "pl") for code in DESCRIPTIONS)
    assert description(1234, "pl") == "brak opisu"


@pytest.mark.parametrize(("openweather", "code"), [(800, 0), (803, 3), (501, 63), (602, 75), (211, 95), (741, 45)])
def test_conditions_of_openweather(openweather: int, code: int) -> None:
    assert wmo_code(openweather) == code


def test_unknown_conditions_have_a_known_code() -> None:
    assert {wmo_code(each) for each in (*range(200, 900), 0, -1, 10**9)} <= set(DESCRIPTIONS)
