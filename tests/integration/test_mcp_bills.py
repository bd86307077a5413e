"""Bills of tools that MCP clients call, on the real store: each call once, and nothing for what is refused or left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from assistant.server import serve
from assistant.settings import AssistantSettings
from infra.launcher.readiness import free_port
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import PayingPlatform

pytestmark = [pytest.mark.store, pytest.mark.timeout(300)]


async def test_calls_are_billed_once_and_the_audit_is_clean(database_url: str, tmp_path: Path) -> None:
    broker = MemoryBroker()
    async with PayingPlatform(lambda name: MemoryTransport(broker, name), database_url, tmp_path) as platform:
        await platform.start(gateways=1, workers=1, make_engine=lambda: CountingEngine(step_time=0.001))
        settings, stop = AssistantSettings(ops_port=free_port()), asyncio.Event()
        assistant = asyncio.create_task(serve(settings, stop, transport=MemoryTransport(broker, "assistant-1")))
        models = platform.gateways[0].models
        async with asyncio.timeout(60):
            while (model := models.find("assistant")) is None or not model.tools:
                await asyncio.sleep(0.05)
        headers = {"authorization": f"Bearer {platform.key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(f"{platform.urls[0]}/mcp", http_client=http), cache=None) as client,
        ):
            calls = [
                client.call_tool("math", {"operation": "evaluate", "expression": f"{each}^2"}) for each in (2, 3, 4)
            ]
            results: list[CallToolResult] = await asyncio.gather(*calls)
            assert [each.structured_content["result_text"] for each in results] == ["4", "9", "16"]
            with pytest.raises(MCPError):
                await client.call_tool("math", {"operation": "evaluate"})
            left = asyncio.create_task(client.call_tool("math", {"operation": "evaluate", "expression": "2+2"}))
            await asyncio.sleep(0)
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)
        stop.set()
        await asyncio.wait_for(assistant, 60)
        await platform.settled()
        bills = [each["final"] for each in await platform.documents("jobs") if each.get("final")]
        called = [[part["units"] for part in each["parts"]] for each in bills if each.get("parts")]
        assert called in ([[{"call": 1}]] * 3, [[{"call": 1}]] * 4)  # the last one may have been too late to cancel
        assert {each["prompt_tokens"] for each in bills} == {0}
        assert await platform.differences() == []
