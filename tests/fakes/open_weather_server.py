"""Stub of OpenWeather's geocoding, current weather and forecast APIs.

Written from https://openweathermap.org/api/geocoding-api, https://openweathermap.org/current and
https://openweathermap.org/forecast5: parameters, shapes, `cod` as number or text, and the documented errors.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.places import PLACES, folded
from tests.fakes.recording_service import Answer, Endpoint, RecordingService

KEY = "0123456789abcdef0123456789abcdef"
NOW = 1_795_522_500
"""2026-11-24 12:15 UTC."""
OFFSET = 3600
INVALID_KEY: Answer = (
    401,
    {"cod": 401, "message": "Invalid API key. Please see https://openweathermap.org/faq#error401 for more info."},
)
BUSY: Answer = (
    429,
    {"cod": 429, "message": "Your account is temporary blocked due to exceeding of requests limitation."},
)


class OpenWeatherServer(RecordingService):
    """The three APIs on one server; each needs the key."""

    def __init__(self) -> None:
        apis = {"/geo/1.0/direct": direct, "/data/2.5/weather": current, "/data/2.5/forecast": forecast}
        super().__init__(**{path: _with_key(api) for path, api in apis.items()})


def _with_key(api: Endpoint) -> Endpoint:
    return lambda query: api(query) if query.get("appid") == KEY else INVALID_KEY


def direct(query: dict[str, str]) -> Answer:
    """Answer the geocoding API: names match whole, without case and diacritics."""
    wanted = folded(query["q"].split(",")[0])
    found = [place for place in PLACES if wanted in (folded(place.polish), folded(place.english))]
    found.sort(key=lambda place: -place.population)
    return 200, [
        {
            "name": place.english,
            "local_names": {"pl": place.polish, "en": place.english},
            "lat": place.latitude,
            "lon": place.longitude,
            "country": place.country_code,
        }
        | ({"state": place.region} if place.region else {})
        for place in found[: int(query.get("limit", "5"))]
    ]


def current(query: dict[str, str]) -> Answer:
    """Answer the current weather."""
    return 200, {
        "coord": {"lon": float(query["lon"]), "lat": float(query["lat"])},
        "weather": [{"id": 501, "main": "Rain", "description": "moderate rain", "icon": "10d"}],
        "base": "stations",
        "main": _main(6.5),
        "visibility": 10000,
        "wind": {"speed": 5.0, "deg": 349, "gust": 9.1},
        "rain": {"1h": 3.16},
        "clouds": {"all": 100},
        "dt": NOW,
        "sys": {"country": "PL", "sunrise": NOW - 20_000, "sunset": NOW + 10_000},
        "timezone": OFFSET,
        "id": 3163858,
        "name": "Station",
        "cod": 200,
    }


def forecast(query: dict[str, str]) -> Answer:
    """Answer the forecast: 40 steps of three hours, rain in every second one."""
    first = NOW - NOW % 10_800 + 10_800
    steps: list[dict[str, Any]] = []
    for number in range(40):
        step: dict[str, Any] = {
            "dt": first + number * 10_800,
            "main": _main(5.0 + number),
            "weather": [{"id": 500 if number % 2 else 804, "main": "-", "description": "-", "icon": "10d"}],
            "clouds": {"all": 100},
            "wind": {"speed": 0.62, "deg": 349},
            "pop": 0.32,
            "dt_txt": "2026-11-24 15:00:00",
        }
        steps.append(step | ({"rain": {"3h": 0.5}} if number % 2 else {}))
    return 200, {
        "cod": "200",
        "message": 0,
        "cnt": 40,
        "list": steps,
        "city": {"id": 1, "name": "City", "country": "PL", "timezone": OFFSET, "sunrise": 1, "sunset": 2},
    }


def _main(temperature: float) -> dict[str, float]:
    return {
        "temp": temperature,
        "feels_like": temperature - 2,
        "temp_min": temperature - 1,
        "temp_max": temperature + 1,
        "pressure": 1015,
        "humidity": 69,
    }
