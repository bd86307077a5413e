"""Defines the Prometheus metrics of the billing process."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics import MetricWrapperBase


class BillingMetrics:
    """Prometheus counters and gauges of one billing process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.settled = counter(
            "headrace_usage_records_settled", "Usage records stored, by outcome of the job.", ["outcome"]
        )
        self.jobs_settled = counter(
            "headrace_jobs_settled",
            "Jobs settled, by source of the usage and outcome of the job.",
            ["source", "outcome"],
        )
        self.settled_amount = counter("headrace_settled_nano_usd", "Cost of settled jobs, in nano-USD.")
        self.clamped = counter("headrace_costs_clamped", "Jobs whose cost exceeded their hold and was limited to it.")
        self.receipts = counter(
            "headrace_receipts",
            "Receipts received: settled, repeated, or conflicting with the settlement (and ignored).",
            ["verdict"],
        )
        self.swept = counter(
            "headrace_jobs_swept",
            "Jobs settled without a receipt, by reason: gateway silent, deadline passed, settlement unfinished.",
            ["reason"],
        )
        self.orphans = counter("headrace_holds_released", "Holds released because they had no job.")
        self.held = gauge("headrace_jobs_held", "Jobs that hold credit, as last counted.")
        self.repeated = counter("headrace_usage_records_repeated", "Usage records received again.")
        self.parked = counter("headrace_messages_parked", "Messages set aside for inspection.", ["queue"])
        self.retries = counter("headrace_settlement_retries", "Settlement retries: store or broker unavailable.")
        self.unsettled = gauge("headrace_usage_records_unsettled", "Usage records received and not yet stored.")
        self.reaped = counter(
            "headrace_jobs_reaped", "Dead-lettered jobs closed, by the failure code sent to the caller.", ["code"]
        )
        self.differences = gauge(
            "headrace_audit_differences", "Differences found by the last audit of the books, by invariant.", ["check"]
        )
        self.audited = gauge("headrace_audit_time_seconds", "When the last audit of the books ended (Unix seconds).")

    def summary(self) -> dict[str, int]:
        """Return the billing process's numbers for `headrace ps`, by name.

        They are totals since the process started, and how many records are `unsettled` now.
        """
        return {
            "settled": _total(self.settled),
            "unsettled": _total(self.unsettled),
            "parked": _total(self.parked),
            "reaped": _total(self.reaped),
            "jobs_settled": _total(self.jobs_settled),
            "clamped": _total(self.clamped),
            "swept": _total(self.swept),
        }


def _total(metric: MetricWrapperBase) -> int:
    samples = (sample for family in metric.collect() for sample in family.samples)
    return int(sum(sample.value for sample in samples if not sample.name.endswith("_created")))
