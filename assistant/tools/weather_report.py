"""Defines weather reports and places, and the interface of weather services, which return them to the weather tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Place:
    """A place that a geocoder found."""

    name: str
    """Name in the language of the conversation."""
    country: str
    """Name or code of the country; empty if unknown."""
    country_code: str
    """ISO 3166-1 alpha-2 code; empty if unknown."""
    region: str
    latitude: float
    longitude: float
    population: int | None = None
    """`None`: the geocoder does not say."""
    names: frozenset[str] = frozenset()
    """All names by which the geocoder may have found the place, `name` among them."""


@dataclass(frozen=True)
class Now:
    """Current weather: Celsius, percent, km/h. `at`: local time in ISO 8601; `code`: WMO 4677."""

    at: str
    temperature: float
    feels_like: float
    humidity: float
    wind: float
    code: int


@dataclass(frozen=True)
class Hour:
    """Weather from a local time on: Celsius, and mm of precipitation. Hours of some services are three apart."""

    at: str
    temperature: float
    precipitation: float


@dataclass(frozen=True)
class Day:
    """Weather of a local date: Celsius, and mm of precipitation."""

    date: str
    min: float
    max: float
    code: int
    precipitation: float


@dataclass(frozen=True)
class Source:
    """Where data is from, and its licence."""

    name: str
    url: str
    licence: str


@dataclass(frozen=True)
class Report:
    """Current weather and forecast of a place."""

    now: Now
    hours: Sequence[Hour] = field(default_factory=tuple)
    days: Sequence[Day] = field(default_factory=tuple)


class WeatherService(Protocol):
    """A service with a geocoder and forecasts."""

    @property
    def source(self) -> Source:
        """Name and licence of the source of this service's forecasts, which answers cite."""

    @property
    def max_days(self) -> int:
        """Number of days of this service's longest forecast."""

    async def find(self, name: str, language: str) -> list[Place]:
        """Return the places called `name`, the most relevant first; empty if there are none.

        Each weather service implements this.

        Raises:
            ToolError: the service does not answer or refuses.
        """

    async def report(self, place: Place, days: int) -> Report:
        """Return the current weather at `place` and a forecast of `days` days. Each weather service implements this.

        Raises:
            ToolError: the service does not answer or refuses.
        """
