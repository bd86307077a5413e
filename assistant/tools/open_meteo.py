"""Client of the weather service Open-Meteo, without a key or with a commercial customer's: places and forecasts.

Sources: https://open-meteo.com/en/docs and https://open-meteo.com/en/docs/geocoding-api.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from assistant.tools.http_client import HttpClient
from assistant.tools.sentences import Sentence
from assistant.tools.service_answers import ask
from assistant.tools.tool import Unavailable
from assistant.tools.weather_report import Day, Hour, Now, Place, Report, Source

NAME = "Open-Meteo"
FORECAST_URL = "https://api.open-meteo.com"
GEOCODING_URL = "https://geocoding-api.open-meteo.com"
HOURS = 24
MAX_RESULTS = 10
_LocalMinute = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d$")]
_Date = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
_INCOMPLETE = Sentence(
    "Open-Meteo has no complete forecast for this place.", "Open-Meteo nie ma pełnej prognozy dla tego miejsca."
)


class _Result(msgspec.Struct):
    name: str
    latitude: float
    longitude: float
    country: str = ""
    country_code: str = ""
    admin1: str = ""
    population: int = 0


class _Results(msgspec.Struct):
    results: list[_Result] = []


class _Current(msgspec.Struct):
    time: _LocalMinute
    temperature_2m: float
    relative_humidity_2m: float
    apparent_temperature: float
    weather_code: int
    wind_speed_10m: float


class _Hourly(msgspec.Struct):
    time: list[_LocalMinute]
    temperature_2m: list[float | None]
    precipitation: list[float | None]


class _Daily(msgspec.Struct):
    time: list[_Date]
    weather_code: list[int | None]
    temperature_2m_max: list[float | None]
    temperature_2m_min: list[float | None]
    precipitation_sum: list[float | None]


class _Forecast(msgspec.Struct):
    current: _Current
    hourly: _Hourly
    daily: _Daily


class OpenMeteo:
    """The weather service Open-Meteo.

    Args:
        http: the client that reaches it.
        key: key of a commercial customer, whose servers have the prefix `customer-`.
        forecast_url, geocoding_url: its servers, or an installation of one's own.
    """

    source = Source(NAME, "https://open-meteo.com/", "CC BY 4.0")
    max_days = 7

    def __init__(
        self, http: HttpClient, *, key: str = "", forecast_url: str = FORECAST_URL, geocoding_url: str = GEOCODING_URL
    ) -> None:
        self._http = http
        self._key = {"apikey": key} if key else {}
        self._forecast_url, self._geocoding_url = forecast_url, geocoding_url
        if key and (forecast_url, geocoding_url) == (FORECAST_URL, GEOCODING_URL):
            self._forecast_url = forecast_url.replace("//", "//customer-")
            self._geocoding_url = geocoding_url.replace("//", "//customer-")

    async def find(self, name: str, language: str) -> list[Place]:
        """Return the places that Open-Meteo's geocoder finds for `name`, most relevant first; empty if there are none.

        Raises:
            ToolError: the service does not answer.
        """
        parameters = {"name": name, "count": str(MAX_RESULTS), "language": language, "format": "json", **self._key}
        found = await ask(self._http, NAME, f"{self._geocoding_url}/v1/search", parameters, _Results)
        return [
            Place(
                each.name,
                each.country,
                each.country_code,
                each.admin1,
                each.latitude,
                each.longitude,
                each.population,
                frozenset([each.name]),
            )
            for each in found.results
        ]

    async def report(self, place: Place, days: int) -> Report:
        """Return the current weather at `place` and a forecast of `days` days by Open-Meteo.

        Raises:
            ToolError: the service does not answer.
        """
        parameters = {
            "latitude": f"{place.latitude:.5f}",
            "longitude": f"{place.longitude:.5f}",
            "current": ",".join(_Current.__struct_fields__[1:]),
            "hourly": ",".join(_Hourly.__struct_fields__[1:]),
            "daily": ",".join(_Daily.__struct_fields__[1:]),
            "forecast_days": str(days),
            "forecast_hours": str(HOURS),
            "timezone": "auto",
            **self._key,
        }
        found = await ask(self._http, NAME, f"{self._forecast_url}/v1/forecast", parameters, _Forecast)
        try:
            return Report(_now(found.current), _hours(found.hourly), _days(found.daily)[:days])
        except ValueError as error:
            raise Unavailable(_INCOMPLETE) from error


def _now(current: _Current) -> Now:
    return Now(
        current.time,
        current.temperature_2m,
        current.apparent_temperature,
        current.relative_humidity_2m,
        current.wind_speed_10m,
        current.weather_code,
    )


def _hours(hourly: _Hourly) -> list[Hour]:
    rows = zip(hourly.time, hourly.temperature_2m, hourly.precipitation, strict=True)
    return [
        Hour(at, temperature, precipitation or 0.0)
        for at, temperature, precipitation in rows
        if temperature is not None
    ][:HOURS]


def _days(daily: _Daily) -> list[Day]:
    rows = zip(
        daily.time,
        daily.temperature_2m_min,
        daily.temperature_2m_max,
        daily.weather_code,
        daily.precipitation_sum,
        strict=True,
    )
    return [
        Day(at, low, high, code, rain or 0.0)
        for at, low, high, code, rain in rows
        if low is not None and high is not None and code is not None
    ]
