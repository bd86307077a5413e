"""The whole process on a broker in memory: its status, an answer by mathematics, and a clean end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from assistant.server import serve
from assistant.settings import AssistantSettings
from infra.launcher.readiness import free_port
from router.messages import Finished
from runtime.lifecycle import StartupError
from tests.assistant.answers import ended_steps
from tests.assistant.conftest import Platform


async def test_it_answers_and_ends(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    port, stop = free_port(), asyncio.Event()
    settings = AssistantSettings(ops_port=port)
    running = asyncio.create_task(serve(settings, stop, transport=platform.unstarted("assistant-1")))
    answer = await platform.ask("What is 17 * 23?")
    await answer.read()
    assert isinstance(answer.terminal, Finished)
    [route, tool] = ended_steps(answer)
    assert (route.data["choice"], tool.data["result"]["result_text"]) == ("math", "391")
    assert answer.texts == ["391"]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        status = (await client.get("/status")).json()
        metrics = (await client.get("/metrics")).text
    assert (status["model"], status["state"], status["device"]) == ("assistant", "ready", "assistant")
    assert list(status["models"]["assistant"]["tools_off"]) == ["image", "weather", "web_page", "wikipedia"]
    assert 'headrace_assistant_steps_total{kind="tool",name="math",state="done"} 1.0' in metrics
    stop.set()
    await asyncio.wait_for(running, 15)


async def test_an_invalid_catalogue_is_an_error(tmp_path: Path, platform: Platform) -> None:
    path = tmp_path / "assistant.toml"
    path.write_text('[models.a]\nanswers_with = "a"\n')
    settings = AssistantSettings(assistant_config=path)
    with pytest.raises(StartupError, match="which is an assistant too"):
        await serve(settings, asyncio.Event(), transport=platform.unstarted("assistant-1"))
