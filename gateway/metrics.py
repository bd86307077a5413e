"""What a gateway counts. One object per process, registered where it is told; nothing at import."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class GatewayMetrics:
    """The gateway's metrics. `route` is a path's template, never the path: few values, whatever clients ask for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "headrace_http_requests",
            "HTTP requests answered (or abandoned, as status 499).",
            ["route", "method", "status"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "headrace_http_request_duration_seconds",
            "From the request's headers to the last byte of the answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.first_token_seconds = Histogram(
            "headrace_time_to_first_token_seconds",
            "From a job's opening to its first token in the gateway.",
            ["model"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.outcomes = Counter(
            "headrace_generations",
            "Generations by how they ended: finished, or an error's name.",
            ["model", "outcome"],
            registry=registry,
        )
        self.tokens = Counter(
            "headrace_tokens_streamed", "Generated tokens accepted for delivery.", ["model"], registry=registry
        )
        self.streams_open = Gauge("headrace_streams_open", "SSE streams open now.", registry=registry)
        self.controls_refused = Counter(
            "headrace_control_messages_refused",
            "Control messages that nobody who may send any has just sent: unsigned, forged or old.",
            ["reason"],
            registry=registry,
        )
        self.overloaded = Counter(
            "headrace_requests_refused",
            "Requests answered 503 because there is too much work, by what there is too much of.",
            ["reason"],
            registry=registry,
        )
        self.held = Gauge(
            "headrace_jobs_waiting_for_turn", "Jobs held here until it is their tenant's turn.", registry=registry
        )
        self.inbox_jobs = Gauge("headrace_inbox_jobs", "Jobs whose replies are awaited.", registry=registry)
        self.replies_dropped = Counter(
            "headrace_replies_dropped", "Replies that were not delivered, by reason.", ["reason"], registry=registry
        )
        self.tokens_after_disconnect = Counter(
            "headrace_tokens_after_disconnect",
            "Tokens that came for a client that had gone; what engines made later is `headrace_tokens_for_nobody`.",
            registry=registry,
        )
        self.resumed = Counter(
            "headrace_jobs_resumed", "Times that a worker went on with a job that another one had.", registry=registry
        )
        self.doubted = Counter(
            "headrace_jobs_doubted",
            "Times that a worker was asked whether it is alive because another one was given its job.",
            registry=registry,
        )
        self.holds = Counter(
            "headrace_holds",
            "Requests that asked for credit to be set aside, by what came of it.",
            ["outcome"],
            registry=registry,
        )
        self.hold_seconds = Histogram(
            "headrace_hold_duration_seconds",
            "Time that requests waited for credit to be set aside.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.receipts_waiting = Gauge(
            "headrace_receipts_waiting", "Receipts that are not published yet.", registry=registry
        )
