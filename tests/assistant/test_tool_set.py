"""The tools of an installation: what is off says why."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from pydantic import SecretStr

from assistant.catalogue import ToolsSpec, WeatherSpec
from assistant.tool_set import open_tools
from assistant.tools.image import ImageServices
from assistant.tools.open_meteo import OpenMeteo
from assistant.tools.open_weather import OpenWeather
from assistant.tools.tool import ToolContext, ToolOff
from assistant.tools.toolbox import Toolbox
from assistant.tools.unit_prices import UnitPrices
from auth_billing.prices.price_book import PriceBook
from router.producer.child_jobs import ChildJobs
from runtime.lifecycle import StartupError
from tests.fakes.prices import ListPriceStore
from tests.fakes.stored_objects import stored_objects

NO_MODELS = Mock(spec=ChildJobs)
NAMES = ["image", "math", "weather", "web_page", "wikipedia"]


async def test_by_default_only_mathematics_is_on() -> None:
    async with open_tools(ToolsSpec(), None, NO_MODELS, None) as toolbox:
        assert [tool.name for tool in toolbox.available()] == ["math"]
        known = [tool.name for tool in toolbox.known(NAMES)]
        assert known == ["image", "math", "weather", "web_page"]  # a model answers what Wikipedia would be asked
        reasons = toolbox.reasons("pl")
        assert list(reasons) == ["image", "weather", "web_page", "wikipedia"]
        for name in reasons:
            with pytest.raises(ToolOff) as error:
                await toolbox.run(name, {}, ToolContext("t", "u", "pl"))
            assert error.value.message("pl") == reasons[name]


async def test_all_tools_can_be_switched_on() -> None:
    spec = ToolsSpec(weather=WeatherSpec(), wikipedia=True, web_page=True)
    async with open_tools(
        spec, None, NO_MODELS, ImageServices(stored_objects(), UnitPrices(PriceBook(ListPriceStore())))
    ) as toolbox:
        assert [tool.name for tool in toolbox.available()] == NAMES
        assert toolbox.reasons("en") == {}
        assert isinstance(_service(toolbox), OpenMeteo)


async def test_a_key_selects_openweather() -> None:
    weather = WeatherSpec(service="openweather", api_key_env="KEY")
    async with open_tools(ToolsSpec(weather=weather), SecretStr("k"), NO_MODELS, None) as toolbox:
        assert isinstance(_service(toolbox), OpenWeather)


async def test_a_malformed_network_is_an_error() -> None:
    spec = ToolsSpec(permitted_networks=("10.0.0.0/99",))
    with pytest.raises(StartupError, match="permitted_networks"):
        async with open_tools(spec, None, NO_MODELS, None):
            pass


def _service(toolbox: Toolbox) -> object:
    return vars(toolbox.find("weather"))["_service"]
