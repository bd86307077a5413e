"""The worker's metrics of the engine's load, and their documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from inference_worker.engine_protocol import EngineLoad
from inference_worker.worker.metrics import WorkerMetrics, merged_registry
from router.messages import Cancelled, SearchMethod, Usage

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> WorkerMetrics:
    return WorkerMetrics(registry, "m")


def value(registry: CollectorRegistry, name: str) -> float | None:
    return registry.get_sample_value(f"headrace_{name}", {"model_name": "m"})


def test_counters_keep_growing_after_an_engine_restart(registry: CollectorRegistry, metrics: WorkerMetrics) -> None:
    metrics.engine.load = EngineLoad(prefix_cache_queries=100, prefix_cache_hits=30, steps=4, preemptions=1)
    metrics.engine.load = EngineLoad(
        prefix_cache_queries=150, prefix_cache_hits=70, steps=6, step_tokens=90, preemptions=1
    )
    metrics.engine.engine_started()
    metrics.engine.load = EngineLoad(prefix_cache_queries=10, prefix_cache_hits=0, steps=1, step_tokens=10)
    expected = {"prefix_cache_queries": 160, "prefix_cache_hits": 70, "engine_steps": 7, "engine_step_tokens": 100}
    assert {name: value(registry, f"{name}_total") for name in expected} == expected
    assert value(registry, "num_preemptions_total") == 1


def test_gauges_follow_the_load(registry: CollectorRegistry, metrics: WorkerMetrics) -> None:
    metrics.engine.engine_started(kv_block_bytes=1024)
    metrics.engine.waiting = 3
    metrics.engine.load = EngineLoad(
        running=2,
        waiting=1,
        kv_blocks_used=5,
        kv_blocks_total=20,
        kv_blocks_peak=7,
        kv_slots_held=80,
        kv_tokens_held=76,
    )
    expected = {
        "num_requests_running": 2,
        "num_requests_waiting": 4,
        "kv_cache_usage_perc": 0.25,
        "kv_cache_peak_bytes": 7 * 1024,
        "kv_cache_tokens": 76,
        "kv_cache_waste_perc": pytest.approx(0.05),
    }
    assert {name: value(registry, name) for name in expected} == expected


def test_searches_are_counted_by_method_and_outcome(registry: CollectorRegistry, metrics: WorkerMetrics) -> None:
    metrics.search_ended(SearchMethod.DVTS, Cancelled(job_id="j", attempt_id="a", usage=Usage(prompt_tokens=1)))
    labels = {"model_name": "m", "method": "dvts", "outcome": "cancelled"}
    assert registry.get_sample_value("headrace_searches_total", labels) == 1


def test_the_documentation_lists_every_metric_of_a_worker(registry: CollectorRegistry, metrics: WorkerMetrics) -> None:
    section = DOCUMENT.read_text().split("\n## Worker\n")[1].split("\n## ")[0]
    listed = set(re.findall(r"^\| `(headrace_\w+)` \|", section, re.MULTILINE))
    suffix = {"counter": "_total"}
    assert listed == {metric.name + suffix.get(metric.type, "") for metric in registry.collect()}


def test_two_models_of_a_worker_have_each_metric_once_with_their_names() -> None:
    registries = [CollectorRegistry(), CollectorRegistry()]
    for number, (name, registry) in enumerate(zip(("generator", "verifier"), registries, strict=True)):
        WorkerMetrics(registry, name).engine.load = EngineLoad(running=number + 1)
    merged = merged_registry(registries)
    for _ in range(2):  # a scrape changes nothing
        text = generate_latest(merged).decode()
        assert text.count("# TYPE headrace_num_requests_running gauge") == 1
        for number, name in enumerate(("generator", "verifier")):
            assert text.count(f'headrace_num_requests_running{{model_name="{name}"}} {number + 1}.0') == 1
            assert text.count(f'headrace_engine_restarts_total{{model_name="{name}"}} 0.0') == 1
