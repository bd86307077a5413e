"""Consent to a tool in Chromium, with all that it needs: page, gateway, assistant, an MCP server over stdio."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, Locator, expect

from assistant.server import serve
from assistant.settings import AssistantSettings
from gateway.settings import GatewaySettings
from infra.launcher.readiness import free_port
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.chat_ui.chat_clients import eventually
from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.conftest import DIST
from tests.chat_ui.test_served_chat import ChattingPlatform
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL
from tests.fakes.scripted_worker import ScriptedWorker, say

pytestmark = [pytest.mark.e2e, pytest.mark.store, pytest.mark.timeout(300)]

TOOL = "mcp.notes.find"
SERVER = r"""
import pathlib
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")
log, description = map(pathlib.Path, sys.argv[1:])


@server.tool(description=description.read_text())
def find(query: str) -> str:
    with log.open("a") as calls:
        calls.write(query + "\n")
    return f"One note: {query}"


server.run("stdio")
"""
"""An MCP server whose tool notes its calls in one file, and is described by another."""


class BriefPlatform(ChattingPlatform):
    """A platform whose answers are short."""

    def _app(self, bus: Bus, settings: GatewaySettings) -> FastAPI:
        return super()._app(bus, settings.model_copy(update={"default_max_tokens": 4}))


class Notes:
    """The assistant's process with the MCP server, which can be started again."""

    def __init__(self, broker: MemoryBroker, folder: Path) -> None:
        self._broker = broker
        self._log, self._description = folder / "calls.txt", folder / "description.txt"
        self._catalogue = folder / "assistant.toml"
        script = folder / "notes_server.py"
        script.write_text(SERVER)
        command = [sys.executable, str(script), str(self._log), str(self._description)]
        self._catalogue.write_text(
            f"""[models.assistant]
answers_with = "{MODEL}"
tools = ["{TOOL}"]
routing = {{ way = "grammar", model = "router" }}
[mcp.notes]
command = {command}
tools = ["find"]
"""
        )

    @property
    def calls(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    @asynccontextmanager
    async def running(self, description: str) -> AsyncIterator[None]:
        self._description.write_text(description)
        settings = AssistantSettings(ops_port=free_port(), assistant_config=self._catalogue, drain_grace=1)
        stop = asyncio.Event()
        process = asyncio.create_task(serve(settings, stop, transport=MemoryTransport(self._broker, "assistant-1")))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait_for(process, 60)


@asynccontextmanager
async def routing_model(broker: MemoryBroker) -> AsyncIterator[None]:
    """A model that always chooses the tool."""
    bus = Bus(MemoryTransport(broker, "worker-router"))
    await bus.start()
    worker = ScriptedWorker(bus, "router", say("mcp_notes_find"), "worker-router")

    async def beat() -> None:
        while True:
            bus.send_status(worker.status)
            await asyncio.sleep(0.2)

    async with worker.running():
        beating = asyncio.create_task(beat())
        yield
        beating.cancel()
    await bus.close()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


async def visit_of(served: ChattingPlatform, browser: Browser) -> Visit:
    """Open the page as the installation's owner."""
    await eventually(lambda: served.gateways[0].models.find("assistant") is not None)
    owner = await served.owner()
    origin = served.urls[0].removesuffix("/v1")
    visit = await Visit.to(origin, browser, 60_000)
    cookies: Any = [{"name": name, "value": value, "url": origin} for name, value in owner.browser.cookies.items()]
    await visit.context.add_cookies(cookies)
    await visit.page.goto(f"{origin}/")
    return visit


async def ask(visit: Visit, text: str) -> Locator:
    """Ask a question; return the card of its tool once the answer has ended."""
    await visit.ask(text)
    answer = visit.page.locator("article.answer").last
    card = answer.get_by_role("region", name=re.compile("^notes.find · Find my note on"))
    await expect(card).to_be_visible()
    await expect(answer).to_have_attribute("aria-busy", "false")
    return card


async def test_a_person_allows_a_tool_once_or_in_the_conversation(
    browser: Browser, database_url: str, tmp_path: Path
) -> None:
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    broker = MemoryBroker()
    notes = Notes(broker, tmp_path)
    async with AsyncExitStack() as stack:
        served = BriefPlatform(lambda name: MemoryTransport(broker, name), database_url, tmp_path / "home")
        await stack.enter_async_context(served)
        await served.start(gateways=1, workers=1, make_engine=lambda: CountingEngine(step_time=0.001))
        await stack.enter_async_context(routing_model(broker))
        async with notes.running("Finds notes."):
            visit = await visit_of(served, browser)
            page = visit.page
            await page.get_by_role("button", name="Model:").click()
            await page.get_by_role("radio", name="assistant").click()
            card = await ask(visit, "Find my note on tea.")
            await expect(card).to_contain_text("find of the server notes would get:")
            await expect(card.get_by_role("definition")).to_have_text("Find my note on tea.")
            assert notes.calls == []
            assert await visit.violations() == []
            once = card.get_by_role("button", name="Allow once")
            await once.focus()
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("One note: Find my note on tea.")).to_be_visible()
            assert notes.calls == ["Find my note on tea."]
            card = await ask(visit, "Find my note on coffee.")
            await card.get_by_role("button", name="Allow in this conversation").click()
            await expect(page.get_by_text("One note: Find my note on coffee.")).to_be_visible()
            await ask(visit, "Find my note on sugar.")
            await expect(page.get_by_text("One note: Find my note on sugar.")).to_be_visible()
            await page.reload()
            await page.get_by_role("button", name="Settings", exact=True).click()
            allowed = page.get_by_role("group", name="Allowed in this conversation").get_by_role("switch")
            await expect(allowed).to_be_checked()
            assert await visit.violations() == []
        async with notes.running("Finds notes, and sends them away."):
            card = await ask(visit, "Find my note on milk.")
            await expect(card.get_by_role("button", name="Allow once")).to_be_visible()
            await card.get_by_role("button", name="Allow in this conversation").click()
            await expect(page.get_by_text("One note: Find my note on milk.")).to_be_visible()
            await allowed.click()
            await expect(allowed).to_have_count(0)
            await page.reload()
            card = await ask(visit, "Find my note on salt.")
            await expect(card.get_by_role("button", name="Allow once")).to_be_visible()
            assert notes.calls[1:] == ["Find my note on coffee.", "Find my note on sugar.", "Find my note on milk."]
            await visit.expect_clean()
        await served.settled()
        assert await served.differences() == []
