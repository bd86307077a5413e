"""Trace context across processes: the W3C `traceparent` in HTTP and AMQP headers.

Uses OpenTelemetry's API only. Spans are recorded when whoever runs the platform installs an SDK; without one the
caller's trace id is still carried from process to process and stands on each log line.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


def inject() -> dict[str, str]:
    """The current trace context as headers (`traceparent`, perhaps `tracestate`); empty outside a trace."""
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def extract(headers: Mapping[str, object]) -> Context:
    """The trace context that `headers` (lower-case names) carry; an empty one if they carry none or a malformed one."""
    carrier = {name: value for name, value in headers.items() if isinstance(value, str)}
    return TraceContextTextMapPropagator().extract(carrier, context=Context())
