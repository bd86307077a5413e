"""Tests of the engine driver on a tiny model."""

from __future__ import annotations

import pytest

from benchmarks import engine_driver, workloads
from tests.fakes.tiny_model import TinyModel, tiny_engine

VOCAB = 61


def test_a_batch_generates_the_requested_tokens() -> None:
    driver = engine_driver.run_batch(tiny_engine(), workloads.fixed(3, VOCAB, 9, 5))
    assert [t.output_tokens for t in driver.timelines.values()] == [5, 5, 5]
    assert all(t.succeeded and len(t.chunks) == 5 for t in driver.timelines.values())
    assert 0 < driver.cache.waste <= driver.cache.worst < 1


def test_turns_repeat_the_conversation_and_hit_the_prefix_cache() -> None:
    engine = tiny_engine()
    work = workloads.shared_prefix(2, 2, VOCAB, turns=3, prefix=32, question=4, answer=4)
    driver = engine_driver.run_conversations(engine, work, clients=2)
    assert len(driver.timelines) == 12
    asked = sum(32 + 4 * turn + 4 * (turn - 1) for turn in (1, 2, 3)) * 4
    assert engine.load().prompt_tokens == asked
    assert engine.load().prefix_cache_hits > asked / 2


def test_probes_are_measured_and_the_streams_under_them_dropped() -> None:
    engine = tiny_engine()
    driver = engine_driver.under_load(
        engine, workloads.fixed(4, VOCAB, 8, 200), workloads.fixed(2, VOCAB, 8, 2, seed=9), [0.001, 0.001]
    )
    assert [t.output_tokens for t in driver.timelines.values()] == [2, 2]
    assert not engine.has_work()


def test_streams_that_are_too_short_are_an_error() -> None:
    with pytest.raises(ValueError, match="more tokens"):
        engine_driver.under_load(tiny_engine(), workloads.fixed(1, VOCAB, 8, 2), workloads.fixed(1, VOCAB, 8, 9), [0.0])


def test_a_request_that_fails_ends_the_measurement() -> None:
    model = TinyModel()
    model.poison = set(range(VOCAB))
    with pytest.raises(RuntimeError):
        engine_driver.run_batch(tiny_engine(model), workloads.fixed(1, VOCAB, 8, 2))
