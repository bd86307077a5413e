"""Periodic tasks: repeated at their interval, through failures of the store, and invalid settings refused."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.errors import StoreUnavailable
from auth_billing.housekeeping import Housekeeping, repeat
from auth_billing.settings import BillingSettings
from auth_billing.store.connection import StoreConnection
from runtime.lifecycle import StartupError

UNREACHABLE = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=50"


async def test_a_task_is_repeated_until_the_stop_although_the_store_fails() -> None:
    stop, runs = asyncio.Event(), []

    async def task() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise StoreUnavailable("away")
        if len(runs) == 3:
            stop.set()

    async with asyncio.timeout(10):
        await repeat(task, 0.001, stop)
    assert runs == [0, 1, 2]


async def test_a_stop_before_the_first_run_ends_it() -> None:
    stop, runs = asyncio.Event(), []

    async def task() -> None:
        runs.append(True)

    stop.set()
    async with asyncio.timeout(10):
        await repeat(task, 0.001, stop, delay=60.0)
    assert not runs


async def test_another_error_of_a_task_is_raised() -> None:
    async def task() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        await repeat(task, 0.001, asyncio.Event())


@pytest.mark.parametrize(
    "wrong",
    [
        {"alert_url": "ftp://host", "alert_secret": "x" * 24},
        {"alert_url": "https://host", "alert_secret": "short"},
        {"alert_url": "https://host", "alert_secret": "x" * 24, "alert_credit": "much"},
    ],
)
async def test_invalid_settings_are_a_startup_error(wrong: dict[str, str]) -> None:
    connection = StoreConnection(UNREACHABLE)
    with pytest.raises(StartupError, match="HEADRACE_ALERT"):
        Housekeeping(BillingSettings(**wrong), connection)  # type: ignore[arg-type]
    connection.close()


async def test_an_unavailable_store_is_a_startup_error() -> None:
    connection = StoreConnection(UNREACHABLE, operation_ms=200)
    with pytest.raises(StartupError, match="store"):
        await Housekeeping(BillingSettings(), connection).prepare()
    connection.close()
