"""Idempotency keys: which request runs, and what its repetitions get."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from auth_billing.errors import AnswerNotKept, KeyReused, StoreUnavailable
from auth_billing.idempotency import RETENTION_PERIOD, Claim, IdempotencyKeys, KeptAnswer, KeyedRequest, RemoteRun
from tests.fakes.accounts import DictIdempotencyStore, FakeClock

LEASE = 30.0
REQUEST = KeyedRequest("tenant", "project", "/v1/x", "key", "fingerprint")
OTHER_BODY = KeyedRequest("tenant", "project", "/v1/x", "key", "other")
ANSWER = KeptAnswer(200, {"content-type": "application/json"}, b"{}")


@pytest.fixture
def store() -> DictIdempotencyStore:
    return DictIdempotencyStore()


@pytest.fixture
def keys(store: DictIdempotencyStore, clock: FakeClock) -> IdempotencyKeys:
    return IdempotencyKeys(store, clock=clock, lease=LEASE)


async def claimed(keys: IdempotencyKeys, request: KeyedRequest = REQUEST) -> Claim:
    claim = await keys.claim(request)
    assert isinstance(claim, Claim)
    return claim


async def test_one_request_runs_and_repetitions_get_its_answer(keys: IdempotencyKeys) -> None:
    claim = await claimed(keys)
    run = await keys.claim(REQUEST)
    assert run == RemoteRun(REQUEST.record_id, claim.run_id, keys.gateway)
    assert await keys.state_of(run) == run
    assert await keys.finish(claim, ANSWER)
    assert await keys.state_of(run) == ANSWER
    assert await keys.claim(REQUEST) == ANSWER


async def test_a_dropped_answer_is_not_repeated(keys: IdempotencyKeys) -> None:
    await keys.finish(await claimed(keys), ANSWER)
    await keys.drop_answers([REQUEST, KeyedRequest("tenant", "project", "/v1/x", "unused", "")])
    with pytest.raises(AnswerNotKept):
        await keys.claim(REQUEST)


async def test_a_different_body_is_refused_before_and_after_the_answer(keys: IdempotencyKeys) -> None:
    claim = await claimed(keys)
    with pytest.raises(KeyReused):
        await keys.claim(OTHER_BODY)
    await keys.finish(claim, ANSWER)
    with pytest.raises(KeyReused):
        await keys.claim(OTHER_BODY)


async def test_a_released_request_runs_again(keys: IdempotencyKeys) -> None:
    await keys.release(await claimed(keys))
    await claimed(keys, OTHER_BODY)


async def test_an_expired_lease_is_taken_over_once(keys: IdempotencyKeys, clock: FakeClock) -> None:
    dead = await claimed(keys)
    clock.now += LEASE
    outcomes = await asyncio.gather(*(keys.claim(REQUEST) for _ in range(20)), return_exceptions=True)
    (alive,) = [outcome for outcome in outcomes if isinstance(outcome, Claim)]
    run = RemoteRun(alive.record_id, alive.run_id, keys.gateway)
    assert [outcome for outcome in outcomes if outcome is not alive] == [run] * 19
    assert await keys.state_of(replace(run, run_id=dead.run_id)) is None
    assert not await keys.renew(dead)
    assert not await keys.finish(dead, ANSWER)
    assert not await keys.release(dead)  # it is not its own any more
    assert await keys.finish(alive, ANSWER)


async def test_a_renewed_lease_is_not_taken_over(keys: IdempotencyKeys, clock: FakeClock) -> None:
    claim = await claimed(keys)
    for _ in range(5):
        clock.now += LEASE - 1
        assert await keys.renew(claim)
    assert isinstance(await keys.claim(REQUEST), RemoteRun)


async def test_a_key_expires_after_a_day(keys: IdempotencyKeys, clock: FakeClock) -> None:
    await keys.finish(await claimed(keys), ANSWER)
    clock.now += RETENTION_PERIOD - 1
    assert await keys.claim(REQUEST) == ANSWER
    clock.now += 1  # the store may take its time to forget
    await claimed(keys, OTHER_BODY)


async def test_an_answer_without_its_body_can_not_be_repeated(keys: IdempotencyKeys) -> None:
    await keys.finish(await claimed(keys), KeptAnswer(200, {}, None))
    with pytest.raises(AnswerNotKept):
        await keys.claim(REQUEST)


async def test_projects_and_endpoints_have_separate_keys(keys: IdempotencyKeys) -> None:
    for request in (
        REQUEST,
        KeyedRequest("tenant2", "project", "/v1/x", "key", "fingerprint"),
        KeyedRequest("tenant", "project2", "/v1/x", "key", "fingerprint"),
        KeyedRequest("tenant", "project", "/v1/y", "key", "fingerprint"),
        KeyedRequest("tenant", "project", "/v1/x", "key2", "fingerprint"),
        KeyedRequest("tenant", "project\0/v1", "/x", "key", "fingerprint"),
    ):
        await claimed(keys, request)


async def test_an_unavailable_store_decides_nothing(keys: IdempotencyKeys, store: DictIdempotencyStore) -> None:
    store.absence.away = True
    with pytest.raises(StoreUnavailable):
        await keys.claim(REQUEST)
