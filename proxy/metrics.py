"""Prometheus metrics of a proxy process, per model; those with a worker's names mean the same (docs/metrics.md)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from router.messages import Cancelled, Failed, Terminal, Usage

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
MODEL = "model_name"


class ProxyCollectors:
    """Collectors of one proxy process, shared by the `ProxyMetrics` of its models."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"headrace_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"headrace_{name}", text, (MODEL, *labels), registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"headrace_{name}", text, (MODEL,), registry=registry, buckets=_SECONDS)

        self.running = gauge("num_requests_running", "Requests that upstreams are answering", MODEL)
        self.waiting = gauge("num_requests_waiting", "Requests that wait for a slot", MODEL)
        self.circuit_open = gauge("upstream_resting", "Whether an upstream's circuit breaker is open", "upstream")
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens of ended jobs")
        self.generation_tokens = counter("generation_tokens", "Completion tokens of ended jobs")
        self.success = counter("request_success", "Choices by finish reason", "finished_reason")
        self.upstream_requests = counter("upstream_requests", "Requests to upstreams by outcome", "upstream", "outcome")
        self.estimated = counter("upstream_usage_estimated", "Complete answers without a plausible usage")
        self._control_refused = Counter(
            "headrace_control_messages_refused", "Control messages rejected", ("reason",), registry=registry
        )
        self.first_token = histogram("time_to_first_token_seconds", "Time from a job's delivery to its first text")
        self.latency = histogram("e2e_request_latency_seconds", "Time from a job's delivery to its end")

    def control_refused(self, reason: str) -> None:
        """Count a control message that the proxy rejected; `reason` is `unsigned`, `forged` or `old`."""
        self._control_refused.labels(reason).inc()


class ProxyMetrics:
    """Metrics of one model of a proxy."""

    def __init__(self, collectors: ProxyCollectors, model: str) -> None:
        self._collectors = collectors
        self._model = model
        self.estimated = collectors.estimated.labels(model)
        self.time_to_first_token = collectors.first_token.labels(model)

    def load(self, running: int, waiting: int) -> None:
        """Set the gauges of the model's requests: `running` at upstreams, and `waiting` for a slot."""
        self._collectors.running.labels(self._model).set(running)
        self._collectors.waiting.labels(self._model).set(waiting)

    def upstream_requests(self, upstream: str, outcome: str) -> Counter:
        """Return the Prometheus counter of the model's requests to an upstream that ended with this outcome."""
        return self._collectors.upstream_requests.labels(self._model, upstream, outcome)

    def finished(self, reason: str) -> None:
        """Count one ended choice of an answer, by its finish reason."""
        self._collectors.success.labels(self._model, reason).inc()

    def ended(self, terminal: Terminal, usage: Usage, seconds: float) -> None:
        """Count one ended job: its tokens; its failure or cancellation, or its latency in `seconds` if it finished."""
        self._collectors.prompt_tokens.labels(self._model).inc(usage.prompt_tokens)
        self._collectors.generation_tokens.labels(self._model).inc(usage.completion_tokens)
        if isinstance(terminal, Failed | Cancelled):
            self.finished("error" if isinstance(terminal, Failed) else "abort")
        else:
            self._collectors.latency.labels(self._model).observe(seconds)
