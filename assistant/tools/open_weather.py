"""Client of the weather service OpenWeather, with a key: places, current weather, five days of forecast.

Sources: https://openweathermap.org/api/geocoding-api, https://openweathermap.org/current and
https://openweathermap.org/forecast5. Times are Unix seconds; `timezone` is the place's offset from UTC in seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec

from assistant.tools.http_client import HttpClient
from assistant.tools.service_answers import ask
from assistant.tools.weather_codes import wmo_code
from assistant.tools.weather_report import Day, Hour, Now, Place, Report, Source

NAME = "OpenWeather"
URL = "https://api.openweathermap.org"
HOURS = 24
MAX_RESULTS = 5
_KMH = 3.6
"""Kilometres per hour of one metre per second."""


class _Result(msgspec.Struct):
    name: str
    lat: float
    lon: float
    country: str = ""
    state: str = ""
    local_names: dict[str, str] = {}


class _Main(msgspec.Struct):
    temp: float
    feels_like: float
    temp_min: float
    temp_max: float
    humidity: float


class _Condition(msgspec.Struct):
    id: int


class _Wind(msgspec.Struct):
    speed: float = 0.0


class _Amount(msgspec.Struct):
    last_3h: float = msgspec.field(name="3h", default=0.0)


class _Current(msgspec.Struct):
    dt: int
    main: _Main
    weather: list[_Condition]
    wind: _Wind = msgspec.field(default_factory=_Wind)
    timezone: int = 0


class _Step(msgspec.Struct):
    dt: int
    main: _Main
    weather: list[_Condition]
    rain: _Amount = msgspec.field(default_factory=_Amount)
    snow: _Amount = msgspec.field(default_factory=_Amount)

    @property
    def precipitation(self) -> float:
        """Rain and snow of the three hours of this step of a forecast, in mm."""
        return self.rain.last_3h + self.snow.last_3h


class _City(msgspec.Struct):
    timezone: int = 0


class _Forecast(msgspec.Struct):
    city: _City
    steps: list[_Step] = msgspec.field(name="list")


class OpenWeather:
    """The weather service OpenWeather.

    Args:
        http: the client that reaches it.
        key: this installation's key.
        url: its server.
    """

    source = Source(NAME, "https://openweathermap.org/", "CC BY-SA 4.0")
    max_days = 5

    def __init__(self, http: HttpClient, key: str, *, url: str = URL) -> None:
        self._http = http
        self._key = key
        self._url = url

    async def find(self, name: str, language: str) -> list[Place]:
        """Return the places that OpenWeather's geocoder finds for `name`, most relevant first; empty if there are none.

        Raises:
            ToolError: the service does not answer.
        """
        parameters = {"q": name, "limit": str(MAX_RESULTS), "appid": self._key}
        found = await ask(self._http, NAME, f"{self._url}/geo/1.0/direct", parameters, list[_Result])
        return [
            Place(
                each.local_names.get(language, each.name),
                each.country,
                each.country,
                each.state,
                each.lat,
                each.lon,
                None,
                frozenset([each.name, *each.local_names.values()]),
            )
            for each in found
        ]

    async def report(self, place: Place, days: int) -> Report:
        """Return the current weather at `place` and a forecast of `days` days by OpenWeather.

        Raises:
            ToolError: the service does not answer.
        """
        parameters = {
            "lat": f"{place.latitude:.5f}",
            "lon": f"{place.longitude:.5f}",
            "units": "metric",
            "appid": self._key,
        }
        current, forecast = await asyncio.gather(
            ask(self._http, NAME, f"{self._url}/data/2.5/weather", parameters, _Current),
            ask(self._http, NAME, f"{self._url}/data/2.5/forecast", parameters, _Forecast),
        )
        now = Now(
            _local(current.dt, current.timezone),
            current.main.temp,
            current.main.feels_like,
            current.main.humidity,
            round(current.wind.speed * _KMH, 1),
            _code(current.weather),
        )
        return Report(now, _hours(forecast), _days(forecast)[:days])


def _hours(forecast: _Forecast) -> list[Hour]:
    return [
        Hour(_local(step.dt, forecast.city.timezone), step.main.temp, step.precipitation)
        for step in forecast.steps[: HOURS // 3]
    ]


def _days(forecast: _Forecast) -> list[Day]:
    """Return the dates of a forecast with their extremes and their commonest condition; the first may be a part."""
    dates: dict[str, list[_Step]] = {}
    for step in forecast.steps:
        dates.setdefault(_local(step.dt, forecast.city.timezone)[:10], []).append(step)
    return [
        Day(
            date,
            min(step.main.temp_min for step in steps),
            max(step.main.temp_max for step in steps),
            Counter(_code(step.weather) for step in steps).most_common(1)[0][0],
            round(sum(step.precipitation for step in steps), 1),
        )
        for date, steps in dates.items()
    ]


def _code(conditions: list[_Condition]) -> int:
    return wmo_code(conditions[0].id) if conditions else 0


def _local(seconds: int, offset: int) -> str:
    """Return Unix seconds as local time; seconds beyond the calendar are cut to it."""
    bounded = min(max(seconds, 0), 4_102_444_800)
    shift = timedelta(seconds=min(max(offset, -50_400), 50_400))
    return (datetime.fromtimestamp(bounded, UTC) + shift).strftime("%Y-%m-%dT%H:%M")
