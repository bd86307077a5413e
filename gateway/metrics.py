"""Declares the Prometheus metrics of a gateway process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from router.producer.metrics import ProducerMetrics

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class GatewayMetrics(ProducerMetrics):
    """The gateway's metrics. A `route` label is a path's template, never the path, so that its values are few."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, registry=registry)

        def histogram(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=_SECONDS, registry=registry)

        self.requests = counter(
            "headrace_http_requests",
            "HTTP requests answered, or abandoned by the client (status 499).",
            "route",
            "method",
            "status",
        )
        self.request_seconds = histogram(
            "headrace_http_request_duration_seconds",
            "Time from a request's headers to the last byte of its response.",
            "route",
        )
        self.first_token_seconds = histogram(
            "headrace_time_to_first_token_seconds",
            "Time from a generation's opening to its first token in the gateway.",
            "model",
        )
        self.outcomes = counter(
            "headrace_generations", "Generations by outcome: finished, or the name of an error.", "model", "outcome"
        )
        self.tokens = counter("headrace_tokens_streamed", "Generated tokens accepted for delivery.", "model")
        self.streams_open = gauge("headrace_streams_open", "SSE streams open now.")
        self.controls_refused = counter(
            "headrace_control_messages_refused",
            "Control messages rejected because their signature or timestamp is missing or invalid, by reason.",
            "reason",
        )
        self.overloaded = counter(
            "headrace_requests_refused",
            "Requests answered 503 because of overload, by the limit that was exceeded.",
            "reason",
        )
        self.held = gauge("headrace_jobs_waiting_for_turn", "Jobs in this gateway's fair queue, not published yet.")
        self.holds = counter("headrace_holds", "Credit holds requested, by outcome.", "outcome")
        self.hold_seconds = histogram(
            "headrace_hold_duration_seconds", "Time that requests waited for their credit hold."
        )
        self.moderation_checks = counter(
            "headrace_moderation_checks",
            "Checks of prompts and answers by projects' moderation, by what was checked and outcome.",
            "checked",
            "outcome",
        )
        self.batch_lines = counter("headrace_batch_lines", "Lines of batches answered, by outcome.", "outcome")
        self.takeovers = counter(
            "headrace_takeovers",
            "Background responses and batches that this gateway claimed from one that died, stopped or gave "
            "them back, by kind "
            "(response, batch) and outcome (continued, ended, postponed).",
            "kind",
            "outcome",
        )
        self.imported_files = counter(
            "headrace_imported_files", "Files imported into vector stores, by outcome.", "outcome"
        )
        self.receipts_waiting = gauge("headrace_receipts_waiting", "Receipts waiting to be published.")
