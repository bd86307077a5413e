"""Assembly of a gateway: every route is authenticated or public, and settings reach the components."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from gateway import app as gateway_app
from gateway.http import error_handlers
from router.model_registry import ModelRegistry
from router.producer.reply_inbox import ReplyInbox
from router.timings import Timings
from runtime.lifecycle import StartupError
from tests.gateway.conftest import MODEL, SetStage, eventually
from tests.router.test_model_registry import status


async def test_an_unprotected_route_prevents_the_start(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_handlers, "install", lambda app: app.get("/forgotten")(lambda: None))
    with pytest.raises(StartupError, match="/forgotten"):
        await set_stage()


async def test_an_invalid_alias_file_prevents_the_start(set_stage: SetStage, tmp_path: Path) -> None:
    file = tmp_path / "aliases.toml"
    file.write_text("[aliases]\nx = 1\n")
    with pytest.raises(StartupError, match="must be a model's name"):
        await set_stage(model_aliases=str(file))


async def test_load_is_reported_to_other_gateways(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    stage = await set_stage(timings=Timings(load_report_interval=0.005))
    monkeypatch.setattr(stage.gateway.bus, "send_control", lambda _target, message: sent.append(message))
    await eventually(lambda: bool(sent))
    assert sent[0].gateway == stage.gateway.settings.gateway_id


async def test_a_background_task_that_dies_fails_running_requests(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[Exception] = []
    stage = await set_stage()
    monkeypatch.setattr(ReplyInbox, "fail_all", lambda _inbox, error: failed.append(error))

    async def broken() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        await gateway_app._supervise(stage.gateway, broken())
    assert len(failed) == 1
    assert stage.gateway.failed.is_set()
    assert (await stage.client.get(f"/v1/models/{MODEL}")).status_code == 200


async def test_a_starting_gateway_waits_for_a_late_first_heartbeat() -> None:
    models = ModelRegistry(time.time)
    waiting = asyncio.create_task(gateway_app._collect_heartbeats(models, 0.2))
    await asyncio.sleep(0.4)
    assert not waiting.done(), "its requests would be answered 503"
    models.observe(status())
    async with asyncio.timeout(5):
        await waiting


async def test_a_gateway_starts_without_workers_too() -> None:
    began = time.monotonic()
    await gateway_app._collect_heartbeats(ModelRegistry(time.time), 0.05)
    assert time.monotonic() - began >= 0.25
