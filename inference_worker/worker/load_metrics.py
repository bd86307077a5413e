"""Exports the load of a worker's engine as Prometheus metrics, read at scrape time as reports come far more often.

Counters keep growing when a restarted engine counts from 0 again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inference_worker.engine_protocol import EngineLoad

LABELS = ("model_name",)


@dataclass(frozen=True)
class _Counter:
    name: str
    field: str
    """Attribute of `EngineLoad`."""
    text: str


_COUNTERS = (
    _Counter("engine_steps", "steps", "Steps computed"),
    _Counter("engine_step_tokens", "step_tokens", "Tokens computed in steps, recomputed ones included"),
    _Counter("prompt_tokens", "prompt_tokens", "Prompt tokens computed or found in the cache"),
    _Counter("generation_tokens", "generation_tokens", "Tokens generated"),
    _Counter("num_preemptions", "preemptions", "Sequences preempted to free KV blocks"),
    _Counter("prefix_cache_queries", "prefix_cache_queries", "Prompt tokens looked up in the prefix cache"),
    _Counter("prefix_cache_hits", "prefix_cache_hits", "Prompt tokens found in the prefix cache"),
    _Counter("spec_decode_num_draft_tokens", "draft_tokens", "Draft tokens proposed by speculative decoding"),
    _Counter("spec_decode_num_accepted_tokens", "accepted_tokens", "Draft tokens accepted"),
)


class LoadMetrics(Collector):
    """Prometheus collector of the load of a worker's engines. `waiting`: jobs that are not in the engine yet."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._previous = dict.fromkeys((counter.field for counter in _COUNTERS), 0)
        """Totals of the previous engines, by field."""
        self.load = EngineLoad()
        self.waiting = 0
        self._kv_block_bytes = 0

    def engine_started(self, kv_block_bytes: int = 0) -> None:
        """Add the counters of the previous engine process to the totals, because a new one counts from 0.

        `kv_block_bytes` are the bytes of a KV block of the new engine.
        """
        self._kv_block_bytes = kv_block_bytes
        for field in self._previous:
            self._previous[field] += getattr(self.load, field)
        self.load = EngineLoad()

    def collect(self) -> Iterator[Metric]:
        """Yield the engine's load as Prometheus metrics; Prometheus' client library calls this at each scrape."""
        load = self.load
        yield self._gauge("num_requests_running", "Sequences in the engine's current batch", load.running)
        yield self._gauge(
            "num_requests_waiting", "Requests that wait for a slot in the batch", load.waiting + self.waiting
        )
        yield self._gauge("kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1", kv_usage(load))
        yield self._gauge(
            "kv_cache_peak_bytes",
            "Most bytes of KV blocks in use at once since the engine process started",
            load.kv_blocks_peak * self._kv_block_bytes,
        )
        yield self._gauge("kv_cache_tokens", "Tokens with keys and values in blocks in use", load.kv_tokens_held)
        yield self._gauge(
            "kv_cache_waste_perc", "Share of the used blocks' capacity that holds no token, 0 to 1", kv_waste(load)
        )
        for counter in _COUNTERS:
            family = CounterMetricFamily(f"headrace_{counter.name}", counter.text, labels=LABELS)
            family.add_metric([self._model], self._previous[counter.field] + getattr(load, counter.field))
            yield family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"headrace_{name}", text, labels=LABELS)
        family.add_metric([self._model], value)
        return family


def kv_usage(load: EngineLoad) -> float:
    """Return the share of the engine's KV cache blocks that are in use in `load`, 0 to 1."""
    return min(1.0, load.kv_blocks_used / load.kv_blocks_total) if load.kv_blocks_total else 0.0


def kv_waste(load: EngineLoad) -> float:
    """Return the share, 0 to 1, of used KV cache blocks' capacity that holds no token: unfilled ends of last blocks."""
    return 1 - load.kv_tokens_held / load.kv_slots_held if load.kv_slots_held else 0.0
