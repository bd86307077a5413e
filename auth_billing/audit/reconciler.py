"""Runs audits of the books in the billing process, and reports differences as log messages and metrics; corrects none.

A difference in the books needs a person's decision: an automatic correction would hide its cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from auth_billing.audit.audit_records import Check
from auth_billing.audit.auditor import Auditor
from auth_billing.metrics import BillingMetrics

MAX_LOGGED = 20

_log = structlog.get_logger(__name__)


class Reconciler:
    """Runs audits and publishes their results as metrics and log lines."""

    def __init__(self, auditor: Auditor, metrics: BillingMetrics, *, clock: Callable[[], float] = time.time) -> None:
        self._auditor = auditor
        self._metrics = metrics
        self._clock = clock

    async def reconcile(self) -> None:
        """Run one audit of the whole store, set the metrics to its result and log the first differences.

        Corrects nothing. The billing process calls this periodically.

        Raises:
            StoreUnavailable: the audit could not be completed.
        """
        report = await self._auditor.audit()
        counts = report.counts()
        for check in Check:
            self._metrics.differences.labels(check.name.lower()).set(counts[check])
        self._metrics.audited.set(self._clock())
        for each in report.differences[:MAX_LOGGED]:
            _log.error("audit difference", **{name: str(value) for name, value in vars(each).items()})
        looked = {"accounts": report.accounts, "jobs": report.jobs, "rows": report.rows}
        _log.info("audit completed", differences=len(report.differences), **looked)
