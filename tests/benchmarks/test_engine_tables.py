"""Tests of the engine's tables on a tiny model: each has rows with figures."""

from __future__ import annotations

import pytest

from benchmarks.engine_tables import TABLES, Bench, Scale
from inference_worker.engine.engine import Engine
from tests.fakes.tiny_model import TinyModel, tiny_engine

TINY = Scale(
    1, (1, 2), ((1, 4), (5, 8)), probes=1, tenants=1, conversations=1, length=8, prompts=(8, 16), streams=2, chats=1
)


def build(**changes: object) -> Engine:
    return tiny_engine(TinyModel(max_position=4096), num_kv_blocks=20_000, **changes)


@pytest.mark.parametrize("table", ["batch", "prefill", "first-token-under-load", "lengths", "activation-bits"])
def test_a_table(table: str) -> None:
    rows = TABLES[table](Bench(build, TINY))
    assert rows
    assert len({tuple(row) for row in rows}) == 1
    figures = [value for row in rows for value in row.values() if isinstance(value, float)]
    assert figures
    assert all(value >= 0 for value in figures)
