"""Prometheus metrics of the billing process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics import MetricWrapperBase


class BillingMetrics:
    """Counters and gauges of one billing process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.settled = Counter(
            "headrace_usage_records_settled",
            "Usage records stored, by outcome of the job.",
            ["outcome"],
            registry=registry,
        )
        self.jobs_settled = Counter(
            "headrace_jobs_settled",
            "Jobs whose cost became final, by whose word it was and how the job ended.",
            ["source", "outcome"],
            registry=registry,
        )
        self.settled_amount = Counter(
            "headrace_settled_nano_usd", "What settled jobs cost, in nano-USD.", registry=registry
        )
        self.clamped = Counter(
            "headrace_costs_clamped", "Jobs that used more than was held for them: our loss.", registry=registry
        )
        self.receipts = Counter(
            "headrace_receipts",
            "Receipts taken: settled, repeated, or conflicting with what the job was settled to (and ignored).",
            ["verdict"],
            registry=registry,
        )
        self.swept = Counter(
            "headrace_jobs_swept",
            "Jobs that no receipt came for, by why they were settled: gateway silent, deadline passed, unfinished.",
            ["reason"],
            registry=registry,
        )
        self.orphans = Counter(
            "headrace_holds_released", "Holds given back because no job needed them.", registry=registry
        )
        self.held = Gauge("headrace_jobs_held", "Jobs that hold credit, as last counted.", registry=registry)
        self.repeated = Counter(
            "headrace_usage_records_repeated", "Usage records that were stored already.", registry=registry
        )
        self.parked = Counter(
            "headrace_messages_parked", "Messages put aside for a person to look at.", ["queue"], registry=registry
        )
        self.retries = Counter(
            "headrace_settlement_retries", "Tries that the store or the broker did not answer.", registry=registry
        )
        self.unsettled = Gauge(
            "headrace_usage_records_unsettled", "Usage records taken and not yet stored.", registry=registry
        )
        self.reaped = Counter(
            "headrace_jobs_reaped",
            "Dead jobs whose callers were told, by what they were told.",
            ["code"],
            registry=registry,
        )

        self.differences = Gauge(
            "headrace_audit_differences",
            "What the last audit of the books found wrong, by what must hold.",
            ["check"],
            registry=registry,
        )
        self.audited = Gauge(
            "headrace_audit_time_seconds", "When the last audit of the books ended (Unix seconds).", registry=registry
        )

    def summary(self) -> dict[str, int]:
        """Return the totals that `headrace ps` shows."""
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
