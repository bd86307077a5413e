"""Creates the assistant's tools by the catalogue's settings; a tool that is not set up is off, with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from assistant.catalogue import ToolsSpec
from assistant.tools.http_client import HttpClient
from assistant.tools.image import OFF as IMAGES_OFF
from assistant.tools.image import Image, ImageServices
from assistant.tools.mathematics.tool import Mathematics
from assistant.tools.open_meteo import OpenMeteo
from assistant.tools.open_weather import OpenWeather
from assistant.tools.sentences import Sentence
from assistant.tools.tool import Tool
from assistant.tools.toolbox import Toolbox
from assistant.tools.weather import Weather
from assistant.tools.weather_report import WeatherService
from assistant.tools.web_page import WebPage
from assistant.tools.wikipedia import Wikipedia
from router.producer.child_jobs import ChildJobs
from runtime.lifecycle import StartupError

WEATHER_OFF = Sentence(
    "The weather is not switched on here: this installation asks no weather service.",
    "Pogoda nie jest tu włączona: ta instalacja nie pyta żadnego serwisu pogodowego.",
)
WIKIPEDIA_OFF = Sentence(
    "Wikipedia is not switched on here: this installation does not look things up on the internet.",
    "Wikipedia nie jest tu włączona: ta instalacja nie szuka w internecie.",
)

WEB_PAGE_OFF = Sentence(
    "Web pages are not switched on here: this installation opens no pages on the internet.",
    "Strony internetowe nie są tu włączone: ta instalacja nie otwiera stron w internecie.",
)


@asynccontextmanager
async def open_tools(
    spec: ToolsSpec, weather_key: SecretStr | None, children: ChildJobs, images: ImageServices | None
) -> AsyncIterator[Toolbox]:
    """Create the installation's toolbox; a context manager that closes the tools' connections and processes.

    Args:
        spec: the catalogue's settings of the tools.
        weather_key: API key of the weather service, if it needs one.
        children: opens the jobs of tools that call models.
        images: where images are stored; `None`: none is drawn.

    Raises:
        StartupError: a permitted network is malformed.
    """
    try:
        http = HttpClient(permitted_networks=spec.permitted_networks, contact=spec.contact)
    except ValueError as error:
        raise StartupError(f"tools.permitted_networks: {error}") from error
    off = {}
    if spec.weather is None:
        off["weather"] = WEATHER_OFF
    if not spec.wikipedia:
        off["wikipedia"] = WIKIPEDIA_OFF
    if images is None:
        off["image"] = IMAGES_OFF
    if not spec.web_page:
        off["web_page"] = WEB_PAGE_OFF
    wikipedia = Wikipedia(http) if spec.wikipedia_url is None else Wikipedia(http, url=spec.wikipedia_url)
    weather = Weather(_weather_service(spec, http, weather_key))
    following = None if images is None else asyncio.create_task(images.prices.follow())
    mathematics, web_page = Mathematics(), WebPage(http)
    try:
        tools: list[Tool] = [mathematics, weather, web_page, Image(children, images, spec.image)]
        # Without the encyclopaedia its questions are the answering model's; no model knows the weather.
        yield Toolbox([*tools, wikipedia] if spec.wikipedia else tools, off=off)
    finally:
        if following is not None:
            following.cancel()
        mathematics.close()
        web_page.close()
        await http.close()


def _weather_service(spec: ToolsSpec, http: HttpClient, key: SecretStr | None) -> WeatherService:
    url = spec.weather.url if spec.weather is not None else None
    if key is not None:
        secret = key.get_secret_value()
        return OpenWeather(http, secret) if url is None else OpenWeather(http, secret, url=url)
    if url is None:
        return OpenMeteo(http)
    return OpenMeteo(http, forecast_url=url, geocoding_url=url)
