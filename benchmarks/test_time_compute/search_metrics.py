"""Reads the KV cache and token metrics of generator and verifier that a search's benchmark compares between servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.peers.vllm import Vllm

KV_BYTES = int(Vllm.variables["VLLM_CPU_KVCACHE_SPACE"]) * 2**30
"""Bytes of the KV cache of each server of vLLM."""


@dataclass(frozen=True)
class ServerMetrics:
    """The metrics of one model's server at one moment.

    Attributes:
        kv_peak: most bytes of KV blocks that requests held at once since the server started.
        computed: tokens computed since the server started.
    """

    kv_peak: float
    computed: float


def read_metrics(url: str) -> ServerMetrics:
    """Request the Prometheus metrics at `url`, of a Headrace worker or of vLLM's server with `PeakScheduler`."""
    return parse_metrics(httpx.get(url, timeout=30).raise_for_status().text)


def parse_metrics(text: str) -> ServerMetrics:
    """Return the figures in the metrics of a Headrace worker or of vLLM's server with `PeakScheduler`.

    Raises:
        KeyError: a metric is missing.
    """
    values = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    return _of_vllm(values) if "vllm:kv_cache_usage_perc" in values else _of_headrace(values)


def _of_headrace(values: Mapping[str, float]) -> ServerMetrics:
    return ServerMetrics(values["headrace_kv_cache_peak_bytes"], values["headrace_engine_step_tokens_total"])


def _of_vllm(values: Mapping[str, float]) -> ServerMetrics:
    prompt = values["vllm:prompt_tokens_total"] - values["vllm:prefix_cache_hits_total"]
    computed = prompt + values["vllm:generation_tokens_total"]
    return ServerMetrics(values["vllm:kv_cache_usage_perc"] * KV_BYTES, computed)
