"""Passes trace contexts between processes as the W3C header `traceparent`, in HTTP requests and AMQP messages.

Uses OpenTelemetry's API only: spans are recorded if the operator installs an SDK. Without one the caller's trace id is
still propagated between processes and logged on each line.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()
_HEADERS = ("traceparent", "tracestate")
"""Headers of a trace context, as W3C defines them."""


def inject() -> dict[str, str]:
    """Return the current trace context as headers of an outgoing message (`traceparent`, maybe `tracestate`).

    Empty outside a trace.
    """
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers)
    return headers


def extract(headers: Mapping[str, object]) -> Context:
    """Parse the trace context from a received message's `headers` (lower-case names).

    Return an empty context if it is missing or malformed.
    """
    carrier = {name: value for name in _HEADERS if isinstance(value := headers.get(name), str)}
    return _PROPAGATOR.extract(carrier, context=Context()) if carrier else Context()
