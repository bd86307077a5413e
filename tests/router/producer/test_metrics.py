"""The producer's metrics: independent registries."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from router.producer.metrics import ProducerMetrics


def test_two_producers_of_one_process_have_their_own_metrics() -> None:
    first, second = ProducerMetrics(CollectorRegistry()), ProducerMetrics(CollectorRegistry())
    first.resumed.inc()
    values = [each.registry.get_sample_value("headrace_jobs_resumed_total") for each in (first, second)]
    assert values == [1, 0]
