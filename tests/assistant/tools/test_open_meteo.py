"""Open-Meteo's client at a stub of its documented shapes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from assistant.tools.http_client import HttpClient
from assistant.tools.open_meteo import OpenMeteo
from assistant.tools.tool import Unavailable
from assistant.tools.weather_report import Day, Hour, Now
from tests.fakes.open_meteo_server import OpenMeteoServer, forecast
from tests.fakes.recording_service import PERMITTED


@pytest.fixture
async def server() -> AsyncIterator[OpenMeteoServer]:
    server = OpenMeteoServer()
    async with server.running():
        yield server


@pytest.fixture
async def service(server: OpenMeteoServer) -> AsyncIterator[OpenMeteo]:
    http = HttpClient(permitted_networks=[PERMITTED])
    yield OpenMeteo(http, forecast_url=server.url, geocoding_url=server.url)
    await http.close()


async def test_finds_places(service: OpenMeteo, server: OpenMeteoServer) -> None:
    found = await service.find("Springfield", "en")
    assert [(each.name, each.region, each.country_code) for each in found] == [
        ("Springfield", "Missouri", "US"),
        ("Springfield", "Illinois", "US"),
    ]
    assert server.asked[0].query == {"name": "Springfield", "count": "10", "language": "en", "format": "json"}
    assert await service.find("Xyzzy", "en") == []


async def test_reports(service: OpenMeteo) -> None:
    place = (await service.find("Warszawa", "pl"))[0]
    report = await service.report(place, 3)
    assert report.now == Now("2026-11-24T13:15", 4.6, 1.2, 81, 14.4, 3)
    assert (len(report.hours), report.hours[0], report.hours[-1].at) == (
        24,
        Hour("2026-11-24T13:00", 3.0, 0.1),
        "2026-11-25T12:00",
    )
    assert [each.date for each in report.days] == ["2026-11-24", "2026-11-25", "2026-11-26"]
    assert report.days[0] == Day("2026-11-24", -1.5, 9.5, 61, 2.4)


async def test_missing_values_are_left_out(service: OpenMeteo, server: OpenMeteoServer) -> None:
    """Series contain `null` where a weather model ends."""
    place = (await service.find("Warszawa", "pl"))[0]
    await service.report(place, 3)
    answer = forecast(server.asked[-1].query)[1]
    answer["daily"]["temperature_2m_max"][-1] = None
    answer["hourly"]["precipitation"][0] = None
    server.failure = (200, answer)
    report = await service.report(place, 3)
    assert (len(report.days), report.hours[0].precipitation) == (2, 0.0)


async def test_series_of_different_lengths_are_unavailable(service: OpenMeteo, server: OpenMeteoServer) -> None:
    place = (await service.find("Warszawa", "pl"))[0]
    await service.report(place, 3)
    answer = forecast(server.asked[-1].query)[1]
    answer["daily"]["temperature_2m_max"].pop()
    server.failure = (200, answer)
    with pytest.raises(Unavailable):
        await service.report(place, 3)


async def test_errors(service: OpenMeteo, server: OpenMeteoServer) -> None:
    server.failure = (400, {"error": True, "reason": "Parameter 'name' is missing"})
    with pytest.raises(Unavailable) as raised:
        await service.find("Warszawa", "pl")
    assert "Parameter" not in raised.value.message("en")


async def test_customers_have_their_own_servers() -> None:
    http = HttpClient()
    service = OpenMeteo(http, key="k")
    assert service._geocoding_url == "https://customer-geocoding-api.open-meteo.com"
    assert service._forecast_url == "https://customer-api.open-meteo.com"
    await http.close()
