"""Defines a worker's Prometheus metrics: vLLM's names (its `docs/design/metrics.md`) with the prefix `headrace_`.

So dashboards made for vLLM work after one replacement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.registry import Collector

from inference_worker.worker.load_metrics import LABELS, LoadMetrics
from router.consumer.attempts import OUTCOMES
from router.messages import SearchMethod, Terminal

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)


class WorkerMetrics:
    """The Prometheus metrics of one worker process."""

    def __init__(self, registry: CollectorRegistry, model: str) -> None:
        self._registry = registry
        self._model = model
        self.engine = LoadMetrics(model)
        """Metrics of the engine's load; set `load` after each report."""
        registry.register(self.engine)
        self.discarded_tokens = self._counter(
            "tokens_for_nobody",
            "Tokens discarded because their job had ended: cancelled, gateway gone, or stop string",
        )
        self.engine_restarts = self._counter("engine_restarts", "Restarts of the engine process")
        self.time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Time from a job's delivery to its first token", _SECONDS
        )
        self.inter_token_latency = self._histogram(
            "inter_token_latency_seconds", "Time between two tokens of a choice", _TOKEN_SECONDS
        )
        self.time_per_output_token = self._histogram(
            "time_per_output_token_seconds", "Mean time per token of a job after its first token", _TOKEN_SECONDS
        )
        self.latency = self._histogram("e2e_request_latency_seconds", "Time from a job's delivery to its end", _SECONDS)
        self._control_refused = self._counters(
            "control_messages_refused", "Control messages rejected, by reason", "reason"
        )
        self._searches = self._counters(
            "searches", "Ended jobs whose answer was searched for, by method and outcome", "method", "outcome"
        )
        self._success = self._counters("request_success", "Ended choices by finish reason", "finished_reason")

    def control_refused(self, reason: str) -> None:
        """Count one control message that the worker rejected for its signature or timestamp.

        `reason` is `unsigned`, `forged` or `old`.
        """
        self._control_refused.labels(self._model, reason).inc()

    def search_ended(self, method: SearchMethod, terminal: Terminal) -> None:
        """Count a search for an answer by its method and its terminal reply: finished, failed or cancelled."""
        self._searches.labels(self._model, method.value, OUTCOMES[type(terminal)].value).inc()

    def finished(self, reason: str) -> None:
        """Count the end of a choice by finish reason, or of a job that was cancelled (`abort`) or failed (`error`)."""
        self._success.labels(self._model, reason).inc()

    def _counter(self, name: str, text: str) -> Counter:
        return self._counters(name, text).labels(self._model)

    def _counters(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"headrace_{name}", text, (*LABELS, *labels), registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"headrace_{name}", text, LABELS, registry=self._registry, buckets=buckets).labels(self._model)


class _Merged(Collector):
    """The metrics of several registries, those of one name together."""

    def __init__(self, registries: Sequence[CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for registry in self._registries:
            for family in registry.collect():
                known = families.setdefault(family.name, family)
                if known is not family:
                    known.samples.extend(family.samples)
        yield from families.values()


def merged_registry(registries: Sequence[CollectorRegistry]) -> CollectorRegistry:
    """Return a registry with the metrics of all `registries`, whose label `model_name` tells them apart."""
    if len(registries) == 1:
        return registries[0]
    merged = CollectorRegistry()
    merged.register(_Merged(registries))
    return merged
