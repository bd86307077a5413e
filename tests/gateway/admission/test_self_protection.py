"""Load shedding by unconfirmed publishes and event loop lag."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from gateway.admission import self_protection
from gateway.errors import Overloaded
from tests.gateway.conftest import SetStage


@pytest.mark.parametrize(("unconfirmed", "status_code"), [(2000, 200), (2001, 503)])
async def test_too_many_unconfirmed_publishes_shed_load(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, unconfirmed: int, status_code: int
) -> None:
    stage = await set_stage()
    monkeypatch.setattr(type(stage.gateway.bus), "unconfirmed", unconfirmed)
    answer = await stage.chat()
    assert answer.status_code == status_code
    assert (await stage.client.get("/readyz")).status_code == status_code
    if status_code == 503:
        assert answer.json()["error"]["code"] == "overloaded"


async def test_sustained_event_loop_lag_sheds_load(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_protection, "PROBE_INTERVAL", 0.01)
    stage = await set_stage(max_loop_lag=0.02)

    async def keep(condition: Callable[[], bool], *, busy: float) -> None:
        async with asyncio.timeout(20):
            while not condition():
                time.sleep(busy)  # noqa: ASYNC251 - that is what it is about
                await asyncio.sleep(0)

    def is_late() -> bool:
        try:
            stage.gateway.protection.check()
        except Overloaded:
            return True
        return False

    await keep(is_late, busy=0.05)
    answer = await stage.chat()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    await keep(lambda: not is_late(), busy=0.0)
    assert (await stage.chat()).status_code == 200
