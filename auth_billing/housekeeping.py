"""What the billing process does beside settling: keeps prices to their file, completes credit, adds up, audits, alerts.

The all-in-one process does the same. Nothing here is in the way of a request or a settlement.
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
from auth_billing.errors import StoreUnavailable, UnacceptableAmount
from auth_billing.metrics import BillingMetrics
from auth_billing.money.alerts import Alerts
from auth_billing.money.amounts import nano_of
from auth_billing.money.credit import Credit
from auth_billing.money.usage_hours import UsageHours
from auth_billing.money.webhook import Webhook
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.price_file_watcher import PriceWatch
from auth_billing.settings import BillingSettings
from auth_billing.store.alerts import MongoAlertStore
from auth_billing.store.audit import MongoAuditStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.credits import MongoCreditStore
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.prices import MongoPriceStore
from auth_billing.store.usage_hours import MongoHourStore
from runtime.lifecycle import StartupError

CREDIT_SECONDS = 60.0
"""Between looks for credit that was entered by somebody who died before the account took it in."""
RECENT_SECONDS = 24 * 3600.0
"""How far back is looked."""

ALERT_SECONDS = 30.0
RECONCILE_SECONDS = 3600.0
FIRST_RECONCILE_SECONDS = 60.0
"""After the start: what had waited for this process is settled by then."""
USAGE_SECONDS = 300.0
FIRST_USAGE_SECONDS = 90.0

_log = structlog.get_logger(__name__)


class Housekeeping:
    """The chores of one billing process on a store that answers.

    Raises:
        StartupError: a setting makes no sense.
    """

    def __init__(self, settings: BillingSettings, connection: StoreConnection) -> None:
        book = PriceBook(MongoPriceStore(connection))
        self._auditor = Auditor(MongoAuditStore(connection))
        self._credit = Credit(MongoCreditStore(connection), MongoJobStore(connection))
        self._webhook = Webhook(settings.alert_url, settings.alert_secret) if settings.alert_url else None
        self._alerts = None if self._webhook is None else _alerts(settings, connection, self._webhook)
        self._usage_hours = UsageHours(MongoHourStore(connection))
        self._prices = PriceWatch(book, _path(settings.price_file), _path(settings.proxy_config))

    async def prepare(self) -> None:
        """What must be done before anybody is served: prices are in force.

        Raises:
            StartupError: the price file is wrong, or the store went away.
        """
        try:
            await self._prices.load()
        except StoreUnavailable as error:
            raise StartupError(f"the store does not answer: {error}") from error

    async def run(self, metrics: BillingMetrics, stop: asyncio.Event) -> None:
        """Do the chores until `stop`."""
        reconciler = Reconciler(self._auditor, metrics)
        try:
            await self._repeat_all(reconciler, stop)
        finally:
            if self._webhook is not None:
                await self._webhook.close()

    async def _repeat_all(self, reconciler: Reconciler, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._prices.run(stop))
            group.create_task(repeat(self._complete_credit, CREDIT_SECONDS, stop))
            group.create_task(repeat(self._usage_hours.add_up_all, USAGE_SECONDS, stop, first=FIRST_USAGE_SECONDS))
            group.create_task(repeat(reconciler.reconcile, RECONCILE_SECONDS, stop, first=FIRST_RECONCILE_SECONDS))
            if self._alerts is not None:
                group.create_task(repeat(self._alerts.look, ALERT_SECONDS, stop))

    async def _complete_credit(self) -> None:
        await self._credit.catch_up_all(time.time() - RECENT_SECONDS)


async def repeat(work: Callable[[], Awaitable[None]], every: float, stop: asyncio.Event, *, first: float = 0.0) -> None:
    """Do `work` after `first` seconds and then every `every` seconds until `stop`; the store may be away at times."""
    pause = first
    while not await _stopped(stop, pause):
        try:
            await work()
        except StoreUnavailable as error:
            _log.warning("the store is away", chore=work.__name__, reason=str(error))
        pause = every


async def _stopped(stop: asyncio.Event, within: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), within)
    return stop.is_set()


def _alerts(settings: BillingSettings, connection: StoreConnection, webhook: Webhook) -> Alerts:
    try:
        low = nano_of(settings.alert_credit, least=0)
    except UnacceptableAmount as error:
        raise StartupError(f"HEADRACE_ALERT_CREDIT={settings.alert_credit}: {error}") from error
    thresholds = [int(each) for each in settings.alert_thresholds.split(",")]
    return Alerts(MongoAlertStore(connection), webhook, thresholds=thresholds, low=low)


def _path(setting: str) -> Path | None:
    return Path(setting) if setting else None
