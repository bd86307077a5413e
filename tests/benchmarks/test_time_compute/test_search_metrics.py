"""Metrics that the search benchmark reads from a Headrace worker and from vLLM's server."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.test_time_compute.search_metrics import ServerMetrics, parse_metrics
from inference_worker.engine_protocol import EngineLoad
from inference_worker.worker.metrics import WorkerMetrics

VLLM = """\
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 30.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 100.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 7.0
"""


def test_a_workers_metrics_are_read() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry, "m")
    metrics.engine.engine_started(kv_block_bytes=1024)
    metrics.engine.load = EngineLoad(kv_blocks_peak=7, step_tokens=90)
    assert parse_metrics(generate_latest(registry).decode()) == ServerMetrics(kv_peak=7 * 1024, computed=90)


def test_cached_prompt_tokens_of_vllm_are_not_computed() -> None:
    assert parse_metrics(VLLM) == ServerMetrics(kv_peak=2**29, computed=77)


def test_a_server_without_the_metrics_is_an_error() -> None:
    with pytest.raises(KeyError):
        parse_metrics("")
