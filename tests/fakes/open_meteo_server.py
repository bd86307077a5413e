"""Stub of Open-Meteo's forecast and geocoding APIs.

Written from https://open-meteo.com/en/docs and https://open-meteo.com/en/docs/geocoding-api: parameters, shapes, the
absence of empty fields (`results` among them), errors as `{"error": true, "reason": ...}` with status 400. Names match
by their beginning without case and diacritics, in every language, the most populous place first, which is what the
documentation's "fuzzy matching" does with names.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.fakes.places import PLACES, KnownPlace, folded
from tests.fakes.recording_service import Answer, RecordingService

NOW = datetime(2026, 11, 24, 13, 15)


class OpenMeteoServer(RecordingService):
    """Both APIs of Open-Meteo on one server."""

    def __init__(self) -> None:
        super().__init__(**{"/v1/search": search, "/v1/forecast": forecast})


def search(query: dict[str, str]) -> Answer:
    """Answer the geocoding API."""
    wanted, language = folded(query["name"]), query.get("language", "en")
    exact_only = len(wanted) <= 2
    found = [
        place
        for place in PLACES
        if any(folded(n) == wanted or (not exact_only and folded(n).startswith(wanted)) for n in names(place))
    ]
    found.sort(key=lambda place: (not any(folded(n) == wanted for n in names(place)), -place.population))
    results = [_result(place, language) for place in found[: int(query.get("count", "10"))]]
    return 200, {"generationtime_ms": 0.71} | ({"results": results} if results and len(wanted) > 1 else {})


def names(place: KnownPlace) -> set[str]:
    return {place.polish, place.english}


def _result(place: KnownPlace, language: str) -> dict[str, Any]:
    return {
        "id": place.id,
        "name": place.polish if language == "pl" else place.english,
        "latitude": place.latitude,
        "longitude": place.longitude,
        "elevation": 74.0,
        "feature_code": "PPL",
        "country_code": place.country_code,
        "timezone": "Europe/Warsaw",
        "population": place.population,
        "country": place.country,
    } | ({"admin1": place.region} if place.region else {})


def forecast(query: dict[str, str]) -> Answer:
    """Answer the forecast API: temperatures rise by a degree each hour and each day."""
    if not -90 <= float(query["latitude"]) <= 90:
        return 400, {"error": True, "reason": "Latitude must be in range of -90 to 90°."}
    hours, days = int(query.get("forecast_hours", 168)), int(query.get("forecast_days", 7))
    start = NOW.replace(minute=0)
    series = {"temperature_2m": 3.0, "precipitation": 0.1}
    daily = {"weather_code": 61, "temperature_2m_max": 9.5, "temperature_2m_min": -1.5, "precipitation_sum": 2.4}
    current = {
        "temperature_2m": 4.6,
        "relative_humidity_2m": 81,
        "apparent_temperature": 1.2,
        "weather_code": 3,
        "wind_speed_10m": 14.4,
    }
    assert set(query["current"].split(",")) <= set(current)
    return 200, {
        "latitude": float(query["latitude"]),
        "longitude": float(query["longitude"]),
        "generationtime_ms": 0.2,
        "utc_offset_seconds": 3600,
        "timezone": "Europe/Warsaw",
        "timezone_abbreviation": "GMT+1",
        "elevation": 38.0,
        "current_units": {"time": "iso8601", "interval": "seconds", "temperature_2m": "°C"},
        "current": {"time": NOW.strftime("%Y-%m-%dT%H:%M"), "interval": 900, **current},
        "hourly_units": {"time": "iso8601", "temperature_2m": "°C"},
        "hourly": {"time": [(start + timedelta(hours=n)).strftime("%Y-%m-%dT%H:%M") for n in range(hours)]}
        | {name: [round(series[name] + n, 1) for n in range(hours)] for name in query["hourly"].split(",")},
        "daily_units": {"time": "iso8601", "temperature_2m_max": "°C"},
        "daily": {"time": [(start + timedelta(days=n)).strftime("%Y-%m-%d") for n in range(days)]}
        | {
            name: [round(daily[name] + n * (name != "weather_code"), 1) for n in range(days)]
            for name in query["daily"].split(",")
        },
    }
