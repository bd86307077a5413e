"""An assistant's whole process with every tool on, whose outside services are stubs, beside a gateway's stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assistant.server import serve
from assistant.settings import AssistantSettings
from assistant.tools.image import ImageServices
from assistant.tools.unit_prices import UnitPrices
from auth_billing.prices.price_book import PriceBook, PriceVersion
from auth_billing.prices.pricing import PriceList, TokenRate
from infra.launcher.readiness import free_port
from router.bus import Bus
from router.messages import ServiceClass
from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from stored_objects.objects.objects import StoredObjects
from tests.fakes.hostile_site import HostileSite, response
from tests.fakes.media_wiki_server import MediaWikiServer
from tests.fakes.open_meteo_server import OpenMeteoServer
from tests.fakes.prices import ListPriceStore
from tests.fakes.recording_service import PERMITTED
from tests.fakes.scripted_worker import Script, ScriptedWorker, draw, say

PAGE = "<html><title>Trains</title><body><main><p>The last train leaves at 23:10.</p></main></body></html>"
IMAGE_PRICE = 3
WRITES = say("a cat in a hat")
MakeTransport = Callable[[str], Transport]
"""By process name; not started."""


@dataclass
class ToolInstallation:
    """What tests look at beside the gateway."""

    weather: OpenMeteoServer
    wiki: MediaWikiServer
    site: HostileSite
    painter: ScriptedWorker
    writer: ScriptedWorker
    """Worker of the model that chooses and answers."""


@asynccontextmanager
async def tool_installation(
    broker: MemoryBroker | MakeTransport,
    objects: StoredObjects,
    folder: Path,
    *,
    script: Script = draw,
    writes: Script = WRITES,
    way: str = "grammar",
) -> AsyncIterator[ToolInstallation]:
    """Run an assistant with its models; `script` is that of the image model, `writes` of the one that answers.

    `way`: how it chooses tools.
    """
    make = partial(MemoryTransport, broker) if isinstance(broker, MemoryBroker) else broker
    async with AsyncExitStack() as stack:
        weather, wiki, site = OpenMeteoServer(), MediaWikiServer(), HostileSite()
        for service in (weather, wiki, site):
            await stack.enter_async_context(service.running())
        site.paths["/trains"] = response(PAGE.encode(), content_type="text/html; charset=utf-8")
        writer = await _model(stack, make, "writer", writes)
        painter = await _model(stack, make, "painter", script, "64x64", "128x64")
        catalogue = folder / "assistant.toml"
        catalogue.write_text(
            f"""[models.assistant]
answers_with = "{writer.model}"
tools = ["math", "weather", "wikipedia", "image", "web_page"]
routing = {{ way = "{way}" }}
[tools]
wikipedia = true
wikipedia_url = "{wiki.template}"
web_page = true
permitted_networks = ["{PERMITTED}"]
[tools.weather]
url = "{weather.url}"
"""
        )
        store, rate = ListPriceStore(), TokenRate(0, 0, 0, units={"64x64": IMAGE_PRICE})
        store.versions.append(PriceVersion(PriceList(1, {"painter": dict.fromkeys(ServiceClass, rate)}), 0.0))
        prices = UnitPrices(PriceBook(store))
        settings, stop = AssistantSettings(ops_port=free_port(), assistant_config=catalogue), asyncio.Event()
        transport, images = make("assistant-1"), ImageServices(objects, prices)
        running = asyncio.create_task(serve(settings, stop, transport=transport, images=images))
        try:
            yield ToolInstallation(weather, wiki, site, painter, writer)
        finally:
            stop.set()
            await asyncio.wait_for(running, 30)


async def _model(stack: AsyncExitStack, make: MakeTransport, name: str, script: Script, *sizes: str) -> ScriptedWorker:
    bus = Bus(make(f"worker-{name}"))
    await bus.start()
    stack.push_async_callback(bus.close)
    worker = ScriptedWorker(bus, name, script, f"worker-{name}", image_sizes=sizes)
    await stack.enter_async_context(worker.running())
    beating = asyncio.create_task(_beat(worker))
    stack.callback(beating.cancel)
    return worker


async def _beat(worker: ScriptedWorker) -> None:
    while True:
        worker.bus.send_status(worker.status)
        await asyncio.sleep(0.05)
