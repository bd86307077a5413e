"""The report of an audit counts its differences by check."""

from __future__ import annotations

from auth_billing.audit.audit_records import AuditReport, Check, Difference


def test_differences_are_counted_by_check() -> None:
    found = [Difference(check, "org-1", "job-1") for check in (Check.WORKED, Check.READABLE, Check.WORKED)]
    report = AuditReport(accounts=1, jobs=2, rows=3, differences=found)
    assert report.counts() == {Check.WORKED: 2, Check.READABLE: 1}
    assert report.counts()[Check.NOT_NEGATIVE] == 0
