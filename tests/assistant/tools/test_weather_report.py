"""Both weather services implement the port."""

from __future__ import annotations

from assistant.tools.http_client import HttpClient
from assistant.tools.open_meteo import OpenMeteo
from assistant.tools.open_weather import OpenWeather
from assistant.tools.weather_report import WeatherService


async def test_services_state_source_and_licence() -> None:
    http = HttpClient()
    services: list[WeatherService] = [OpenMeteo(http), OpenWeather(http, "key")]
    for service in services:
        assert service.source.url.startswith("https://")
        assert service.source.licence.startswith("CC BY")
        assert service.max_days >= 5
    await http.close()
