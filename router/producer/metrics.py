"""Prometheus metrics of processes that publish jobs: replies dropped, jobs resumed, workers probed."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class ProducerMetrics:
    """Metrics of a reply inbox and of the recovery of its jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.inbox_jobs = Gauge("headrace_inbox_jobs", "Jobs whose replies are awaited.", registry=registry)
        self.replies_dropped = Counter(
            "headrace_replies_dropped", "Replies that were not delivered, by reason.", ("reason",), registry=registry
        )
        self.tokens_after_disconnect = Counter(
            "headrace_tokens_after_disconnect",
            "Tokens received for disconnected clients; `headrace_tokens_for_nobody` counts those discarded by workers.",
            registry=registry,
        )
        self.resumed = Counter(
            "headrace_jobs_resumed", "Jobs of one worker that another worker resumed.", registry=registry
        )
        self.doubted = Counter(
            "headrace_jobs_doubted",
            "Liveness probes sent to a worker because its job was redelivered to another worker.",
            registry=registry,
        )
