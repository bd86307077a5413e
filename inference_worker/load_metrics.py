"""The engine's load as metrics, read when Prometheus asks: an engine reports hundreds of times in between.

Knows no jobs. The counters go on when another engine counts from 0 again.
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
    """Of the load."""
    text: str


_COUNTERS = (
    _Counter("engine_steps", "steps", "Steps computed"),
    _Counter("engine_step_tokens", "step_tokens", "Tokens computed in steps, recomputed ones included"),
    _Counter("prompt_tokens", "prompt_tokens", "Prompt tokens computed or found in the cache"),
    _Counter("generation_tokens", "generation_tokens", "Tokens generated"),
    _Counter("num_preemptions", "preemptions", "Sequences put off to free KV blocks"),
    _Counter("prefix_cache_queries", "prefix_cache_queries", "Prompt tokens looked up in the prefix cache"),
    _Counter("prefix_cache_hits", "prefix_cache_hits", "Prompt tokens found in the prefix cache"),
    _Counter("spec_decode_num_draft_tokens", "draft_tokens", "Tokens guessed ahead by speculation"),
    _Counter("spec_decode_num_accepted_tokens", "accepted_tokens", "Guessed tokens that were right"),
)


class LoadMetrics(Collector):
    """Of the engines that one worker has had. `waiting`: jobs that are not in the engine yet."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._before = dict.fromkeys((counter.field for counter in _COUNTERS), 0)
        """What engines that have gone have counted."""
        self.load = EngineLoad()
        self.waiting = 0

    def engine_started(self) -> None:
        """Another engine counts from 0."""
        for field in self._before:
            self._before[field] += getattr(self.load, field)
        self.load = EngineLoad()

    def collect(self) -> Iterator[Metric]:
        """What Prometheus reads."""
        load = self.load
        yield self._gauge("num_requests_running", "Sequences in the engine's current batch", load.running)
        yield self._gauge(
            "num_requests_waiting", "Requests that wait for a place in the batch", load.waiting + self.waiting
        )
        yield self._gauge("kv_cache_usage_perc", "Part of the KV blocks in use, 0 to 1", kv_usage(load))
        yield self._gauge("kv_cache_tokens", "Tokens with keys and values in blocks in use", load.kv_tokens_held)
        yield self._gauge(
            "kv_cache_waste_perc", "Part of the blocks in use that holds no token, 0 to 1", kv_waste(load)
        )
        for counter in _COUNTERS:
            family = CounterMetricFamily(f"headrace_{counter.name}", counter.text, labels=LABELS)
            family.add_metric([self._model], self._before[counter.field] + getattr(load, counter.field))
            yield family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"headrace_{name}", text, labels=LABELS)
        family.add_metric([self._model], value)
        return family


def kv_usage(load: EngineLoad) -> float:
    """Part of the KV blocks in use, 0 to 1."""
    return min(1.0, load.kv_blocks_used / load.kv_blocks_total) if load.kv_blocks_total else 0.0


def kv_waste(load: EngineLoad) -> float:
    """Part of the KV slots of blocks in use that holds no token, 0 to 1: the ends of last blocks."""
    return 1 - load.kv_tokens_held / load.kv_slots_held if load.kv_slots_held else 0.0
