# ruff: noqa: ASYNC240 - small files, written in tests
"""The watched price file: invalid at start is fatal, invalid later is logged, a valid change is loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from auth_billing.audit_log import AuditLog, Event
from auth_billing.errors import PricesInFile
from auth_billing.housekeeping import Housekeeping
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.price_file_watcher import PriceFileWatcher
from auth_billing.prices.pricing import TokenRate
from auth_billing.settings import BillingSettings
from auth_billing.store.connection import StoreConnection
from auth_billing.store.prices import MongoPriceStore
from router.messages import ServiceClass
from runtime.lifecycle import StartupError
from tests.auth_billing.conftest import Eventually
from tests.fakes.prices import ListPriceStore

RATES = dict.fromkeys(ServiceClass, TokenRate(3, 2, 6))
CATALOGUE = """
[upstreams.a]
base_url = "https://a.example/v1"
[models.outside]
max_model_len = 100
routes = [{ upstream = "a" }]
price = { input = "3", output = "4" }
[models.unpriced]
max_model_len = 100
routes = [{ upstream = "a" }]
"""


def priced(usd: str) -> str:
    return f'[default]\ninput = "{usd}"\noutput = "1"'


@pytest.fixture
def store() -> ListPriceStore:
    return ListPriceStore()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(priced("1"))
    return path


def watcher(
    store: ListPriceStore, path: Path | None, catalogue: Path | None = None, every: float = 5
) -> PriceFileWatcher:
    return PriceFileWatcher(PriceBook(store), AuditLog(store.audit_log), path, catalogue, every=every)


async def test_without_a_file_a_new_installation_has_the_shipped_prices_and_edits_them(store: ListPriceStore) -> None:
    await watcher(store, None).load()
    assert store.versions[-1].prices.default is not None
    edited = await PriceBook(store).edit("tiny", RATES, seen=1)
    await watcher(store, None).load()  # the billing process is restarted
    assert store.versions[-1] == edited
    assert [each.event for each in store.audit_log.entries] == [Event.PRICES_LOADED]


async def test_a_configured_file_replaces_edits_and_locks_the_prices_until_it_is_gone(
    store: ListPriceStore, file: Path
) -> None:
    book = PriceBook(store)
    await watcher(store, None).load()
    await book.edit("tiny", RATES, seen=1)
    for _ in range(2):
        await watcher(store, file).load()
        assert (store.versions[-1].prices.version, store.versions[-1].in_file) == (3, True)
    with pytest.raises(PricesInFile):
        await book.edit("tiny", RATES, seen=3)
    assert [each.target for each in store.audit_log.entries] == ["1", "3"]
    await watcher(store, None).load()
    assert store.versions[-1].prices.default == store.versions[-2].prices.default
    assert (await book.edit("tiny", RATES, seen=4)).prices.version == 5


async def test_prices_in_a_catalogue_lock_and_a_catalogue_without_prices_does_not(
    store: ListPriceStore, tmp_path: Path
) -> None:
    catalogue = tmp_path / "proxy.toml"
    catalogue.write_text(CATALOGUE.replace("price = ", "# "))
    await watcher(store, None, catalogue).load()
    assert not store.versions[-1].in_file
    catalogue.write_text(CATALOGUE)
    await watcher(store, None, catalogue).load()
    assert store.versions[-1].in_file


async def test_a_valid_change_is_loaded_and_an_invalid_one_is_not(
    store: ListPriceStore, file: Path, eventually: Eventually
) -> None:
    watch, stop = watcher(store, file, every=0.01), asyncio.Event()
    await watch.load()
    running = asyncio.create_task(watch.run(stop))
    file.write_text(priced("2"))
    await eventually(lambda: len(store.versions) == 2)
    file.write_text(priced("-2"))
    with pytest.raises(StartupError):
        await watch.load()
    store.absence.failures = 1
    file.write_text(priced("3"))
    await eventually(lambda: len(store.versions) == 3)
    stop.set()
    await running
    rates = [each.prices.price("m", ServiceClass.DEFAULT).input for each in store.versions]
    assert rates == [1000, 2000, 3000]


async def test_prices_of_a_proxys_models_come_from_its_catalogue(store: ListPriceStore, file: Path) -> None:
    catalogue = file.with_name("proxy.toml")
    catalogue.write_text(CATALOGUE)
    with capture_logs() as logs:
        await watcher(store, file, catalogue).load()
    assert [each["model"] for each in logs if each["log_level"] == "warning"] == ["unpriced"]
    prices = store.versions[-1].prices
    assert prices.price("outside", ServiceClass.DEFAULT).output == 4000
    assert prices.price("unpriced", ServiceClass.DEFAULT).input == 1000
    file.write_text(f'{priced("1")}\n[models.outside]\nembedding = "1"')
    with pytest.raises(StartupError, match=r"'outside' has a price in .*prices.toml and in .*proxy.toml"):
        await watcher(store, file, catalogue).load()
    catalogue.write_text(CATALOGUE.replace('"3"', '"-3"'))
    with pytest.raises(StartupError, match=r"models.outside.price.input: '-3' is not a number"):
        await watcher(store, file, catalogue).load()


@pytest.mark.store
async def test_the_billing_process_does_not_start_with_an_invalid_file(file: Path, database_url: str) -> None:
    connection = StoreConnection(database_url, operation_ms=20_000)
    await Housekeeping(BillingSettings(price_file=str(file)), connection).prepare()
    file.write_text(priced("0.00001"))
    with pytest.raises(StartupError, match="no whole number"):
        await Housekeeping(BillingSettings(price_file=str(file)), connection).prepare()
    newest = await MongoPriceStore(connection).newest()
    assert newest is not None
    assert newest.prices.version == 1
    connection.close()
