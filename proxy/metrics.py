"""What a proxy counts for Prometheus: a worker's names where the thing is the same (docs/metrics.md).

Knows no jobs and no HTTP: the forwarder says what happened.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from router.messages import Cancelled, Failed, Terminal, Usage

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
MODEL = "model_name"


class ProxyCollectors:
    """The metrics of one proxy process; `of` gives those of a model."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"headrace_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"headrace_{name}", text, (MODEL, *labels), registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"headrace_{name}", text, (MODEL,), registry=registry, buckets=_SECONDS)

        self.running = gauge("num_requests_running", "Requests outside", MODEL)
        self.waiting = gauge("num_requests_waiting", "Requests that wait for a place", MODEL)
        self.resting = gauge("upstream_resting", "Whether an upstream is left alone, 0 or 1", "upstream")
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens of ended jobs")
        self.generation_tokens = counter("generation_tokens", "Tokens of ended jobs")
        self.success = counter("request_success", "Choices by how they ended", "finished_reason")
        self.upstream_requests = counter("upstream_requests", "Requests to an upstream", "upstream", "outcome")
        self.estimated = counter("upstream_usage_estimated", "Whole answers without a believable usage")
        self._control_refused = Counter(
            "headrace_control_messages_refused", "Control messages refused", ("reason",), registry=registry
        )
        self.first_token = histogram("time_to_first_token_seconds", "Job taken to first piece of text")
        self.latency = histogram("e2e_request_latency_seconds", "Job taken to its end")

    def control_refused(self, reason: str) -> None:
        """A control message that nobody who may send any has just sent: `unsigned`, `forged`, `old`."""
        self._control_refused.labels(reason).inc()


class ProxyMetrics:
    """The metrics of one model."""

    def __init__(self, collectors: ProxyCollectors, model: str) -> None:
        self._collectors = collectors
        self._model = model
        self.estimated = collectors.estimated.labels(model)
        self.time_to_first_token = collectors.first_token.labels(model)

    def load(self, running: int, waiting: int) -> None:
        """How many are outside, and how many wait."""
        self._collectors.running.labels(self._model).set(running)
        self._collectors.waiting.labels(self._model).set(waiting)

    def upstream_requests(self, upstream: str, outcome: str) -> Counter:
        """Requests to an upstream that ended like this."""
        return self._collectors.upstream_requests.labels(self._model, upstream, outcome)

    def finished(self, reason: str) -> None:
        """One choice ended."""
        self._collectors.success.labels(self._model, reason).inc()

    def ended(self, terminal: Terminal, usage: Usage, seconds: float) -> None:
        """A job ended after so long."""
        self._collectors.prompt_tokens.labels(self._model).inc(usage.prompt_tokens)
        self._collectors.generation_tokens.labels(self._model).inc(usage.completion_tokens)
        if isinstance(terminal, Failed | Cancelled):
            self.finished("error" if isinstance(terminal, Failed) else "abort")
        else:
            self._collectors.latency.labels(self._model).observe(seconds)
