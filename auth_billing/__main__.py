"""The billing process: stores usage records, settles jobs, sweeps unsettled ones and closes dead-lettered jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from auth_billing.errors import StoreUnavailable
from auth_billing.housekeeping import Housekeeping, repeat
from auth_billing.metrics import BillingMetrics
from auth_billing.money.settlement import SettlementConsumer
from auth_billing.money.settler import Settler
from auth_billing.money.sweeper import Sweeper
from auth_billing.reaper import Reaper
from auth_billing.settings import BillingSettings
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from auth_billing.store.usage import MongoUsageStore
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.timings import DEFAULT_TIMINGS
from router.transport.base import ConnectionState
from router.transport.rabbitmq.transport import RabbitMQTransport
from runtime import lifecycle, logging
from runtime.lifecycle import StartupError
from runtime.ops_server import OpsServer

NAME = "billing"

_log = structlog.get_logger(__name__)


async def serve(settings: BillingSettings, stop: asyncio.Event) -> None:
    """Run the billing process until `stop` is set: connect to broker and store, serve metrics, settle and close jobs.

    Raises:
        StartupError: no broker or store, the price file is wrong, or the ops port is taken.
    """
    _require(settings)
    connection = StoreConnection(settings.mongodb_url)
    bus = Bus(RabbitMQTransport(settings.amqp_url, NAME))
    try:
        await prepare_store(connection)
        housekeeping = Housekeeping(settings, connection)
        await housekeeping.prepare()
        await _start(bus)
        await _serve(settings, bus, connection, housekeeping, stop)
    finally:
        await bus.close()
        connection.close()


async def prepare_store(connection: StoreConnection) -> None:
    """Check at the start of the billing process that the store answers, and create the indexes that are missing.

    Raises:
        StartupError: the store does not answer.
    """
    try:
        await connection.ping()
        await create_indexes(connection)
    except StoreUnavailable as error:
        raise StartupError(f"the store does not answer (HEADRACE_MONGODB_URL): {error}") from error


async def consume(
    bus: Bus, connection: StoreConnection, housekeeping: Housekeeping, metrics: BillingMetrics, stop: asyncio.Event
) -> None:
    """Run settlement, sweeper, reaper and housekeeping of the billing process on a started bus until `stop` is set."""
    usage_store, stores = MongoUsageStore(connection), mongo_billing_stores(connection)
    settler = Settler(stores, metrics)
    settlement = SettlementConsumer(bus, usage_store, settler, metrics=metrics)

    def flowing() -> bool:
        return bus.state is ConnectionState.UP and settlement.keeps_up

    sweeper = Sweeper(stores, usage_store, settler, metrics, flowing=flowing)
    async with asyncio.TaskGroup() as group:
        group.create_task(settlement.run(stop))
        group.create_task(repeat(sweeper.sweep, DEFAULT_TIMINGS.sweep_interval, stop))
        group.create_task(Reaper(bus, metrics=metrics).run(stop))
        group.create_task(housekeeping.run(metrics, stop))


async def _serve(
    settings: BillingSettings, bus: Bus, connection: StoreConnection, housekeeping: Housekeeping, stop: asyncio.Event
) -> None:
    registry = CollectorRegistry()
    metrics = BillingMetrics(registry)

    def status() -> dict[str, Any]:
        return {"broker": bus.state.value, **metrics.summary()}

    ops = OpsServer(registry, settings.ops_host, settings.ops_port, status)
    await ops.start()
    try:
        _log.info("billing ready", ops_port=ops.port)
        await consume(bus, connection, housekeeping, metrics, stop)
    finally:
        await ops.stop()


async def _start(bus: Bus) -> None:
    try:
        await bus.start()
    except BrokerUnavailable as error:
        raise StartupError(str(error)) from error


def _require(settings: BillingSettings) -> None:
    for name, value in (("HEADRACE_AMQP_URL", settings.amqp_url), ("HEADRACE_MONGODB_URL", settings.mongodb_url)):
        if not value:
            raise StartupError(f"{name} is not set: the billing process needs a broker and a store")


async def _main() -> None:
    settings = BillingSettings()
    logging.configure(NAME, style=settings.log_style, level=settings.log_level)
    stop = asyncio.Event()
    lifecycle.stop_on_signals(stop)
    await serve(settings, stop)


if __name__ == "__main__":
    lifecycle.run(_main())
