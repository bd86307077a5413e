"""OpenWeather's client at a stub of its documented shapes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from assistant.tools.http_client import HttpClient
from assistant.tools.open_weather import OpenWeather
from assistant.tools.tool import Refused, Unavailable
from assistant.tools.weather_report import Day, Hour, Now, Place
from tests.fakes.open_weather_server import BUSY, KEY, OpenWeatherServer
from tests.fakes.recording_service import PERMITTED

PLACE = Place("Warszawa", "PL", "PL", "", 52.2, 21.0)


@pytest.fixture
async def server() -> AsyncIterator[OpenWeatherServer]:
    server = OpenWeatherServer()
    async with server.running():
        yield server


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    http = HttpClient(permitted_networks=[PERMITTED])
    yield http
    await http.close()


@pytest.fixture
def service(http: HttpClient, server: OpenWeatherServer) -> OpenWeather:
    return OpenWeather(http, KEY, url=server.url)


async def test_finds_places(service: OpenWeather) -> None:
    found = await service.find("Warsaw", "pl")
    assert [(each.name, each.names, each.country, each.population) for each in found] == [
        ("Warszawa", frozenset({"Warszawa", "Warsaw"}), "PL", None)
    ]
    assert await service.find("Xyzzy", "en") == []


async def test_reports_in_local_time_and_our_units(service: OpenWeather) -> None:
    report = await service.report(PLACE, 5)
    assert report.now == Now("2026-11-24T13:15", 6.5, 4.5, 69, 18.0, 63)
    assert (len(report.hours), report.hours[0], report.hours[1]) == (
        8,
        Hour("2026-11-24T16:00", 5.0, 0.0),
        Hour("2026-11-24T19:00", 6.0, 0.5),
    )
    assert len(report.days) == 5
    assert report.days[0] == Day("2026-11-24", 4.0, 8.0, 3, 0.5)
    assert report.days[1].date == "2026-11-25"


async def test_a_wrong_key_is_refused_in_plain_words(http: HttpClient, server: OpenWeatherServer) -> None:
    service = OpenWeather(http, "wrong-key", url=server.url)
    with pytest.raises(Refused) as raised:
        await service.report(PLACE, 5)
    assert "operator" in raised.value.message("pl")
    assert "wrong-key" not in f"{raised.value!r} {raised.value.__cause__!r}"


async def test_an_exhausted_key_is_unavailable(service: OpenWeather, server: OpenWeatherServer) -> None:
    server.failure = BUSY
    with pytest.raises(Unavailable):
        await service.find("Warsaw", "en")


async def test_impossible_times_are_bounded(service: OpenWeather, server: OpenWeatherServer) -> None:
    main = {"temp": 1, "feels_like": 1, "temp_min": 1, "temp_max": 1, "humidity": 1}
    step = {"dt": 10**18, "main": main, "weather": []}
    server.failure = (200, step | {"timezone": -(10**12), "list": [step], "city": {"timezone": 10**12}})
    report = await service.report(PLACE, 5)
    assert report.now.at.startswith("2099")
    assert report.days[0].code == 0
