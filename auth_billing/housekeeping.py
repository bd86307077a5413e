"""Runs the periodic tasks of the billing process: price file, unapplied credit, usage rollups, audits and alerts.

The all-in-one process runs them too. They never delay a request or a settlement.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from auth_billing.audit.auditor import Auditor
from auth_billing.audit.reconciler import Reconciler
from auth_billing.audit_log import AuditLog
from auth_billing.errors import StoreUnavailable, UnacceptableAmount
from auth_billing.metrics import BillingMetrics
from auth_billing.money.alerts import Alerts
from auth_billing.money.amounts import parse_usd
from auth_billing.money.credit import Credit
from auth_billing.money.usage_rollups import UsageRollups
from auth_billing.money.webhook import Webhook
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.price_file_watcher import PriceFileWatcher
from auth_billing.settings import BillingSettings
from auth_billing.store.alerts import MongoAlertStore
from auth_billing.store.audit import MongoAuditStore
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.credits import MongoCreditStore
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.prices import MongoPriceStore
from auth_billing.store.usage_rollups import MongoRollupStore
from router.timings import DEFAULT_TIMINGS
from runtime.lifecycle import StartupError

CREDIT_LOOKBACK = 24 * 3600.0
"""Age in seconds of the oldest credit entry that is still applied if its writer died before it did so."""

ALERT_INTERVAL = 30.0
RECONCILE_INTERVAL = 3600.0
RECONCILE_DELAY = 60.0
"""Seconds from the start to the first audit: messages that waited for this process are settled by then."""
ROLLUP_INTERVAL = 300.0
ROLLUP_DELAY = 90.0

_log = structlog.get_logger(__name__)


class Housekeeping:
    """The periodic tasks of one billing process.

    Raises:
        StartupError: a setting is invalid.
    """

    def __init__(self, settings: BillingSettings, connection: StoreConnection) -> None:
        book = PriceBook(MongoPriceStore(connection))
        self._auditor = Auditor(MongoAuditStore(connection))
        self._credit = Credit(MongoCreditStore(connection), MongoJobStore(connection))
        self._webhook = Webhook(settings.alert_url, settings.alert_secret) if settings.alert_url else None
        self._alerts = None if self._webhook is None else _alerts(settings, connection, self._webhook)
        self._rollups = UsageRollups(MongoRollupStore(connection))
        self._prices = PriceFileWatcher(
            book,
            AuditLog(MongoAuditLogStore(connection)),
            _path(settings.price_file),
            _path(settings.proxy_config),
        )

    async def prepare(self) -> None:
        """Load the operator's price file and put its prices in force; call this at start-up, before the first request.

        Raises:
            StartupError: the price file is wrong, or the store does not answer.
        """
        try:
            await self._prices.load()
        except StoreUnavailable as error:
            raise StartupError(f"the store does not answer: {error}") from error

    async def run(self, metrics: BillingMetrics, stop: asyncio.Event) -> None:
        """Run the billing process's periodic tasks until `stop` is set.

        The tasks are the price file, unapplied credit, rollups, audits and alerts. `metrics` gets the results of
        audits. The webhook of alerts is closed at the end.
        """
        reconciler = Reconciler(self._auditor, metrics)
        try:
            await self._repeat_all(reconciler, stop)
        finally:
            if self._webhook is not None:
                await self._webhook.close()

    async def _repeat_all(self, reconciler: Reconciler, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._prices.run(stop))
            group.create_task(repeat(self._apply_credit, DEFAULT_TIMINGS.credit_apply_interval, stop))
            group.create_task(repeat(self._rollups.roll_up_all, ROLLUP_INTERVAL, stop, delay=ROLLUP_DELAY))
            group.create_task(repeat(reconciler.reconcile, RECONCILE_INTERVAL, stop, delay=RECONCILE_DELAY))
            if self._alerts is not None:
                group.create_task(repeat(self._alerts.run_once, ALERT_INTERVAL, stop))

    async def _apply_credit(self) -> None:
        await self._credit.apply_pending_since(time.time() - CREDIT_LOOKBACK)


async def repeat(
    task: Callable[[], Awaitable[None]], interval: float, stop: asyncio.Event, *, delay: float = 0.0
) -> None:
    """Call the coroutine function `task` after `delay` seconds and then every `interval` seconds until `stop` is set.

    `StoreUnavailable` raised by `task` is logged, and the next call follows after the same interval. Other errors end
    the loop.
    """
    pause = delay
    while not await _stopped(stop, pause):
        try:
            await task()
        except StoreUnavailable as error:
            _log.warning("store unavailable", task=task.__name__, reason=str(error))
        pause = interval


async def _stopped(stop: asyncio.Event, within: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), within)
    return stop.is_set()


def _alerts(settings: BillingSettings, connection: StoreConnection, webhook: Webhook) -> Alerts:
    try:
        low = parse_usd(settings.alert_credit, minimum=0)
    except UnacceptableAmount as error:
        raise StartupError(f"HEADRACE_ALERT_CREDIT={settings.alert_credit}: {error}") from error
    thresholds = [int(each) for each in settings.alert_thresholds.split(",")]
    return Alerts(MongoAlertStore(connection), webhook, thresholds=thresholds, low_credit=low)


def _path(setting: str) -> Path | None:
    return Path(setting) if setting else None
