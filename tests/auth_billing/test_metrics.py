"""Metrics of the billing process: the totals that `headrace ps` shows."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics


def test_the_summary_adds_up_labels() -> None:
    metrics = BillingMetrics(CollectorRegistry())
    assert set(metrics.summary().values()) == {0}
    metrics.jobs_settled.labels("receipt", "finished").inc(2)
    metrics.jobs_settled.labels("swept", "cancelled").inc()
    metrics.unsettled.inc(3)
    metrics.unsettled.dec()
    summary = metrics.summary()
    assert (summary["jobs_settled"], summary["unsettled"], summary["clamped"]) == (3, 2, 0)


def test_two_processes_have_separate_counters() -> None:
    first, second = BillingMetrics(CollectorRegistry()), BillingMetrics(CollectorRegistry())
    first.clamped.inc()
    assert (first.summary()["clamped"], second.summary()["clamped"]) == (1, 0)
