"""Checks after every test that an idle engine holds no block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inference_worker.engine.scheduling.scheduler import Scheduler


@pytest.fixture(autouse=True)
def no_block_leaks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Collect every scheduler that a test creates."""
    made: list[Scheduler] = []
    begin = Scheduler.__init__

    def watched(self: Scheduler, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Scheduler, "__init__", watched)
    yield
    for scheduler in made:
        if not scheduler.has_work():
            load = scheduler.load()
            assert (load.kv_blocks_used, load.kv_tokens_held, load.running, load.waiting) == (0, 0, 0, 0)
            assert not any(scheduler.blocks._references)
