"""Audits the books now and then, and says what it finds: in the log and as metrics. It never puts anything right.

What is wrong with money is for a person to look at; a program that mends what it does not understand hides it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from auth_billing.audit.audit_records import Check
from auth_billing.audit.auditor import Auditor
from auth_billing.metrics import BillingMetrics

MOST_LOGGED = 20

_log = structlog.get_logger(__name__)


class Reconciler:
    """Says what an auditor finds."""

    def __init__(self, auditor: Auditor, metrics: BillingMetrics, *, clock: Callable[[], float] = time.time) -> None:
        self._auditor = auditor
        self._metrics = metrics
        self._clock = clock

    async def reconcile(self) -> None:
        """One audit.

        Raises:
            StoreUnavailable: nothing is known.
        """
        report = await self._auditor.audit()
        counts = report.counts()
        for check in Check:
            self._metrics.differences.labels(check.name.lower()).set(counts[check])
        self._metrics.audited.set(self._clock())
        for each in report.differences[:MOST_LOGGED]:
            _log.error("the books differ", **{name: str(value) for name, value in vars(each).items()})
        looked = {"accounts": report.accounts, "jobs": report.jobs, "rows": report.rows}
        _log.info("books audited", differences=len(report.differences), **looked)
