"""The reconciler publishes an audit's differences as metrics, and resets those that are gone."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auth_billing.audit.audit_records import AuditReport, Check, Difference
from auth_billing.audit.auditor import Auditor
from auth_billing.audit.reconciler import Reconciler
from auth_billing.metrics import BillingMetrics


class KnownAudit(Auditor):
    def __init__(self, *differences: Difference) -> None:
        self.differences = differences

    async def audit(self) -> AuditReport:
        return AuditReport(1, 2, 3, self.differences)


async def test_differences_are_counted_by_check() -> None:
    registry = CollectorRegistry()
    audit = KnownAudit(*[Difference(Check.HOLD_HAS_JOB, "org-1", job, "7 held") for job in ("a", "b")])
    reconciler = Reconciler(audit, BillingMetrics(registry), clock=lambda: 5.0)

    def found(check: str) -> float | None:
        return registry.get_sample_value("headrace_audit_differences", {"check": check})

    await reconciler.reconcile()
    assert (found("hold_has_job"), found("spent_is_ledger")) == (2, 0)
    audit.differences = ()
    await reconciler.reconcile()
    assert found("hold_has_job") == 0
    assert registry.get_sample_value("headrace_audit_time_seconds") == 5.0
