"""Times of last use are written together, and none is lost while the store is away."""

import asyncio

import pytest

from auth_billing.authenticator import Authenticator
from auth_billing.keys.key_format import ApiKey
from auth_billing.keys.last_used import LastUsedTimes
from tests.fakes.accounts import DictApiKeyStore, FakeClock

Stage = tuple[DictApiKeyStore, FakeClock, Authenticator, list[ApiKey]]


@pytest.fixture
async def stage() -> Stage:
    store, clock = DictApiKeyStore(), FakeClock()
    service = Authenticator(store, b"p" * 32, clock=clock)
    return store, clock, service, [await service.create_api_key("org", "proj", name="k") for _ in range(2)]


async def test_uses_are_collected_and_written_together(stage: Stage) -> None:
    store, clock, service, keys = stage
    for key in (keys[0], keys[1], keys[0]):
        await service.authenticate(key.text)
        clock.now += 1
    assert {record.last_used for record in store.records.values()} == {None}
    asked = store.absence.asked
    await service.last_used_times.flush()
    assert [store.records[key.key_id].last_used for key in keys] == [1002.0, 1001.0]
    await service.last_used_times.flush()
    assert store.absence.asked == asked + 2  # one a key, in the twin; the second time there was nothing to write


async def test_unwritten_times_are_kept_unless_a_newer_one_exists(stage: Stage) -> None:
    store, _, _, keys = stage
    uses = LastUsedTimes(store)
    uses.record(keys[0].key_id, 5.0)
    uses.record(keys[1].key_id, 6.0)
    store.absence.away = True
    await uses.flush()
    uses.record(keys[0].key_id, 7.0)
    store.absence.away = False
    await uses.flush()
    assert [store.records[key.key_id].last_used for key in keys] == [7.0, 6.0]


async def test_the_rest_is_written_on_cancellation(stage: Stage) -> None:
    store, _, service, keys = stage
    writing = asyncio.create_task(service.last_used_times.flush_periodically())
    await asyncio.sleep(0)  # it has begun
    await service.authenticate(keys[0].text)
    writing.cancel()
    await asyncio.wait({writing})
    assert store.records[keys[0].key_id].last_used == 1000.0
