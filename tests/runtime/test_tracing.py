"""A caller's trace id goes from HTTP headers to AMQP headers and onto log lines."""

import pytest
from opentelemetry import context, trace

from runtime import tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_an_extracted_context_is_injected_again() -> None:
    token = context.attach(tracing.extract({"traceparent": PARENT, "x-other": 3}))
    try:
        assert tracing.inject() == {"traceparent": PARENT}
        assert trace.get_current_span().get_span_context().trace_id == 0x0AF7651916CD43DD8448EB211C80319C
    finally:
        context.detach(token)


def test_outside_a_trace_there_are_no_headers() -> None:
    assert tracing.inject() == {}


@pytest.mark.parametrize("value", ["", "garbage", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 10_000, 7])
def test_a_malformed_parent_is_no_parent(value: int | str) -> None:
    assert not trace.get_current_span(tracing.extract({"traceparent": value})).get_span_context().is_valid


def test_extracting_does_not_inherit_the_trace_of_the_caller() -> None:
    token = context.attach(tracing.extract({"traceparent": PARENT}))
    try:
        assert not trace.get_current_span(tracing.extract({})).get_span_context().is_valid
    finally:
        context.detach(token)
