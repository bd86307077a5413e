"""Places that questions name, at a geocoder that knows nominatives only."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from assistant.tools.geocoding import PlaceFinder
from assistant.tools.http_client import HttpClient
from assistant.tools.open_meteo import OpenMeteo
from assistant.tools.open_weather import OpenWeather
from assistant.tools.tool import InvalidArguments, NotFound, Unavailable
from tests.assistant.tools.inflected_places import INFLECTED
from tests.fakes.open_meteo_server import OpenMeteoServer
from tests.fakes.open_weather_server import KEY, OpenWeatherServer
from tests.fakes.recording_service import PERMITTED

LONGER = {"Lądek": "Lądek-Zdrój"}
"""Names that mean a place with a longer name, because it is the larger one."""
OTHER = {"Turek": "Turku"}
"""Inflected forms that are the names of larger places themselves."""


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    http = HttpClient(permitted_networks=[PERMITTED])
    yield http
    await http.close()


@pytest.fixture
async def open_meteo() -> AsyncIterator[OpenMeteoServer]:
    server = OpenMeteoServer()
    async with server.running():
        yield server


@pytest.fixture
def finder(http: HttpClient, open_meteo: OpenMeteoServer) -> PlaceFinder:
    return PlaceFinder(OpenMeteo(http, forecast_url=open_meteo.url, geocoding_url=open_meteo.url))


async def test_inflected_names_are_found(finder: PlaceFinder) -> None:
    found = {inflected: (await finder.find(inflected, "pl")).name for inflected, _ in INFLECTED}
    expected = {inflected: OTHER.get(name, LONGER.get(name, name)) for inflected, name in INFLECTED}
    assert found == expected
    assert len(found) >= 150


async def test_inflected_names_are_found_at_openweather(http: HttpClient) -> None:
    server = OpenWeatherServer()
    async with server.running():
        finder = PlaceFinder(OpenWeather(http, KEY, url=server.url))
        wrong = []
        for inflected, name in INFLECTED:
            found = (await finder.find(inflected, "pl")).name
            if found not in (name, OTHER.get(name)):
                wrong.append((inflected, name, found))
    assert len(wrong) <= 3, wrong  # It has no populations: villages of the same form can win.


@pytest.mark.parametrize(
    ("asked", "language", "name", "country"),
    [
        ("w Nowym Jorku", "pl", "Nowy Jork", "Stany Zjednoczone"),
        ("we Wrocławiu", "pl", "Wrocław", "Polska"),
        ("wrocławiu", "pl", "Wrocław", "Polska"),
        ("w Lądku", "pl", "Lądek-Zdrój", "Polska"),
        ("Lodz", "pl", "Łódź", "Polska"),
        ("Warsaw", "pl", "Warszawa", "Polska"),
        ("Paris", "pl", "Paryż", "Francja"),
        ("Paris", "en", "Paris", "Francja"),
        ("Paris, Texas", "en", "Paris", "Stany Zjednoczone"),
        ("Springfield", "en", "Springfield", "Stany Zjednoczone"),
        ("Gorzowie", "pl", "Gorzów Wielkopolski", "Polska"),
        ("in New York", "en", "New York", "Stany Zjednoczone"),
        ("Miami", "pl", "Miami", "Stany Zjednoczone"),
        ("Krakowie", "en", "Kraków", "Polska"),
        ("Los Angeles", "pl", "Los Angeles", "Stany Zjednoczone"),
        ("“Oslo”?", "en", "Oslo", "NO"),
    ],
)
async def test_other_forms(finder: PlaceFinder, asked: str, language: str, name: str, country: str) -> None:
    found = await finder.find(asked, language)
    assert (found.name, found.country) == (name, country)


async def test_a_region_or_country_decides_between_places(finder: PlaceFinder) -> None:
    illinois = await finder.find("Springfield, Illinois", "en")
    missouri = await finder.find("Springfield, Missouri", "en")
    assert (illinois.region, missouri.region) == ("Illinois", "Missouri")
    assert (await finder.find("Paryżu, we Francji", "pl")).population == 2138551


@pytest.mark.parametrize("name", ["Xyzzyville", "w Niemamniejscu", "Q" * 300])
async def test_unknown_places(finder: PlaceFinder, name: str) -> None:
    with pytest.raises(NotFound) as raised:
        await finder.find(name, "pl")
    assert "Nie znaleziono miejsca" in raised.value.message("pl")


@pytest.mark.parametrize("name", ["", "  ", "?", "...", ", Polska"])
async def test_names_without_letters(finder: PlaceFinder, name: str) -> None:
    with pytest.raises(InvalidArguments):
        await finder.find(name, "pl")


async def test_large_places_cost_one_look_up_and_are_remembered(
    finder: PlaceFinder, open_meteo: OpenMeteoServer
) -> None:
    for _ in range(3):
        await finder.find("Chicago", "en")
    assert [each.query["name"] for each in open_meteo.asked] == ["Chicago"]


async def test_candidates_are_asked_for_in_order(finder: PlaceFinder, open_meteo: OpenMeteoServer) -> None:
    await finder.find("Bydgoszczy", "pl")
    names = [each.query["name"] for each in open_meteo.asked]
    assert names[:2] == ["Bydgoszczy", "Bydgoszczy"]
    assert "Bydgoszcz" in names[2:6]
    assert len(names) <= 6


async def test_failures_are_not_remembered(finder: PlaceFinder, open_meteo: OpenMeteoServer) -> None:
    open_meteo.failure = (503, {"error": True, "reason": "overloaded"})
    with pytest.raises(Unavailable):
        await finder.find("Chicago", "en")
    open_meteo.failure = None
    assert (await finder.find("Chicago", "en")).name == "Chicago"
