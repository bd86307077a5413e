"""Alerts with stores in memory and in MongoDB (`money/alerts.py`, `store/alerts.py`): once per threshold and month."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from auth_billing.money.alerts import CLAIM_LEASE, Alerts, AlertStore
from auth_billing.money.billing_records import BillingStores, Hold
from auth_billing.money.holds import month_of
from auth_billing.store.alerts import MongoAlertStore
from auth_billing.store.connection import StoreConnection
from tests.auth_billing.conftest import SetAccount
from tests.fakes.accounts import FakeClock
from tests.fakes.alerts import DictAlertStore, Receiver
from tests.fakes.billing_stores import DictBalanceStore

NOW = 1_700_000_000.0
MONTH = month_of(NOW)
LOW = 1_000


@pytest.fixture
def store(stores: BillingStores, store_connection: StoreConnection | None) -> AlertStore:
    if store_connection is not None:
        return MongoAlertStore(store_connection)
    assert isinstance(stores.balances, DictBalanceStore)
    return DictAlertStore(stores.balances)


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def alerts(store: AlertStore, receiver: Receiver, clock: FakeClock) -> Alerts:
    return Alerts(store, receiver, thresholds=[50, 80, 100], low_credit=LOW, clock=clock)


def alerts_of(receiver: Receiver) -> list[tuple[object, object, object]]:
    data = [cast(dict[str, Any], message["data"]) for message in receiver.messages]
    assert all(isinstance(each, dict) for each in data)
    return sorted((each["organization"], each.get("budget", ""), each.get("percent", 0)) for each in data)


async def test_each_threshold_of_a_budget_alerts_once_a_month(
    alerts: Alerts, receiver: Receiver, clock: FakeClock, set_account: SetAccount
) -> None:
    await set_account(
        "org-1", available=LOW, budgets={"organisation": 100, "key:k": 0}, used={MONTH: {"organisation": 49}}
    )
    await alerts.run_once()
    assert alerts_of(receiver) == []
    await set_account("org-1", used={MONTH: {"organisation": 85, "key:k": 3}})
    for _ in range(3):
        await alerts.run_once()
    assert alerts_of(receiver) == [("org-1", "organisation", 50), ("org-1", "organisation", 80)]
    await set_account("org-1", used={MONTH: {"organisation": 100}})
    await alerts.run_once()
    assert len(alerts_of(receiver)) == 3
    clock.now += 31 * 86400
    await alerts.run_once()
    assert len(alerts_of(receiver)) == 3
    await set_account("org-1", used={month_of(clock.now): {"organisation": 50}})
    await alerts.run_once()
    assert len(alerts_of(receiver)) == 4


async def test_low_credit_alerts_unless_the_account_never_had_any(
    alerts: Alerts, receiver: Receiver, set_account: SetAccount
) -> None:
    await set_account("org-1", available=LOW - 1, credited=LOW * 2, spent=LOW + 1)
    await set_account("org-2", available=0)
    await set_account("org-3", available=LOW, credited=LOW)
    await alerts.run_once()
    assert alerts_of(receiver) == [("org-1", "", 0)]
    assert receiver.messages[0]["type"] == "credit.low"
    assert receiver.messages[0]["data"] == {
        "organization": "org-1",
        "month": MONTH,
        "threshold_nano_usd": 1000,
        "available_nano_usd": 999,
        "threshold_usd": "0.000001",
        "available_usd": "0.000000999",
    }


async def test_holds_do_not_count_as_spent(
    alerts: Alerts, store: AlertStore, receiver: Receiver, set_account: SetAccount
) -> None:
    hold: dict[str, Any] = {"amount": 90, "month": MONTH, "project": "p", "key": "k"}
    entry = Hold(**hold) if isinstance(store, DictAlertStore) else hold
    await set_account(
        "org-1",
        available=LOW - 1,
        credited=LOW + 89,
        held_map={"job-1": entry},
        budgets={"organisation": 100},
        used={MONTH: {"organisation": 90}},
    )
    await alerts.run_once()
    assert alerts_of(receiver) == []


async def test_concurrent_processes_send_an_alert_once(
    store: AlertStore, receiver: Receiver, clock: FakeClock, set_account: SetAccount
) -> None:
    await set_account("org-1", available=LOW, budgets={"organisation": 100}, used={MONTH: {"organisation": 100}})
    processes = [Alerts(store, receiver, thresholds=[50, 80, 100], low_credit=LOW, clock=clock) for _ in range(4)]
    await asyncio.gather(*(each.run_once() for each in processes))
    assert len(alerts_of(receiver)) == 3


async def test_failed_and_abandoned_alerts_are_sent_later(
    alerts: Alerts, store: AlertStore, receiver: Receiver, clock: FakeClock, set_account: SetAccount
) -> None:
    await set_account("org-1", available=LOW, budgets={"organisation": 100}, used={MONTH: {"organisation": 50}})
    receiver.away = True
    await alerts.run_once()
    receiver.away = False
    await alerts.run_once()
    assert alerts_of(receiver) == []
    clock.now += 61
    assert await store.claim(clock.now, clock.now + CLAIM_LEASE) is not None  # the claiming process dies
    await alerts.run_once()
    assert alerts_of(receiver) == []
    clock.now += CLAIM_LEASE + 1
    await alerts.run_once()
    assert alerts_of(receiver) == [("org-1", "organisation", 50)]


async def test_an_alert_is_dropped_after_the_last_round(
    alerts: Alerts, receiver: Receiver, clock: FakeClock, set_account: SetAccount
) -> None:
    await set_account("org-1", available=LOW, budgets={"organisation": 100}, used={MONTH: {"organisation": 50}})
    receiver.away = True
    for _ in range(24):
        await alerts.run_once()
        clock.now += 3601
    receiver.away = False
    await set_account("org-1", budgets={})
    await alerts.run_once()
    assert alerts_of(receiver) == []
