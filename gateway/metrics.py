"""The gateway's Prometheus metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class GatewayMetrics:
    """The gateway's metrics. A `route` label is a path's template, never the path, so that its values are few."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "headrace_http_requests",
            "HTTP requests answered, or abandoned by the client (status 499).",
            ["route", "method", "status"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "headrace_http_request_duration_seconds",
            "Time from a request's headers to the last byte of its response.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.first_token_seconds = Histogram(
            "headrace_time_to_first_token_seconds",
            "Time from a generation's opening to its first token in the gateway.",
            ["model"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.outcomes = Counter(
            "headrace_generations",
            "Generations by outcome: finished, or the name of an error.",
            ["model", "outcome"],
            registry=registry,
        )
        self.tokens = Counter(
            "headrace_tokens_streamed", "Generated tokens accepted for delivery.", ["model"], registry=registry
        )
        self.streams_open = Gauge("headrace_streams_open", "SSE streams open now.", registry=registry)
        self.controls_refused = Counter(
            "headrace_control_messages_refused",
            "Control messages rejected because their signature or timestamp is missing or invalid, by reason.",
            ["reason"],
            registry=registry,
        )
        self.overloaded = Counter(
            "headrace_requests_refused",
            "Requests answered 503 because of overload, by the limit that was exceeded.",
            ["reason"],
            registry=registry,
        )
        self.held = Gauge(
            "headrace_jobs_waiting_for_turn", "Jobs in this gateway's fair queue, not published yet.", registry=registry
        )
        self.inbox_jobs = Gauge("headrace_inbox_jobs", "Jobs whose replies are awaited.", registry=registry)
        self.replies_dropped = Counter(
            "headrace_replies_dropped", "Replies that were not delivered, by reason.", ["reason"], registry=registry
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
        self.holds = Counter(
            "headrace_holds",
            "Credit holds requested, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self.hold_seconds = Histogram(
            "headrace_hold_duration_seconds",
            "Time that requests waited for their credit hold.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.receipts_waiting = Gauge(
            "headrace_receipts_waiting", "Receipts waiting to be published.", registry=registry
        )
