"""The cache of API keys: confirmed for seconds, usable longer while the store is away, and safe from stale reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.access.model_access import ALL_MODELS
from auth_billing.keys.key_cache import (
    CONFIRMED_TTL,
    INVALID_TTL,
    RETRY_DELAY,
    VALID_TTL,
    KeyCache,
)
from auth_billing.keys.key_records import ApiKeyRecord
from router.messages import KeySet
from tests.fakes.accounts import FakeClock

KEY = ApiKeyRecord("k0", b"digest", "abcd", "org-1", "proj_1", "name", created=1.0)
RIGHT, WRONG = ("k0", b"digest"), ("k0", b"guess")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(100.0)


@pytest.fixture
def cache(clock: FakeClock) -> KeyCache:
    cache = KeyCache(clock, capacity=3)
    cache.put_valid(RIGHT, KEY, ALL_MODELS, cache.generation)
    return cache


def confirmed(cache: KeyCache) -> bool:
    cached = cache.valid(RIGHT)
    return cached is not None and cache.is_confirmed(cached)


def test_a_key_is_confirmed_for_seconds_and_usable_for_longer(cache: KeyCache, clock: FakeClock) -> None:
    assert confirmed(cache)
    clock.now += CONFIRMED_TTL
    assert not confirmed(cache)
    clock.now += VALID_TTL - CONFIRMED_TTL - 0.1
    assert cache.valid(RIGHT) is not None
    clock.now += 0.1
    assert cache.valid(RIGHT) is None


def test_a_postponed_confirmation_does_not_extend_the_validity(cache: KeyCache, clock: FakeClock) -> None:
    clock.now += VALID_TTL - RETRY_DELAY / 2
    cache.postpone_confirmation(RIGHT)
    assert confirmed(cache)
    clock.now += RETRY_DELAY / 2
    assert cache.valid(RIGHT) is None


def test_a_wrong_secret_has_its_own_entry(cache: KeyCache, clock: FakeClock) -> None:
    assert cache.valid(WRONG) is None
    cache.put_invalid(WRONG)
    assert cache.is_invalid(WRONG)
    assert not cache.is_invalid(RIGHT)
    assert cache.valid(RIGHT) is not None
    clock.now += INVALID_TTL
    assert not cache.is_invalid(WRONG)


def test_a_flood_of_invalid_keys_evicts_no_valid_one(cache: KeyCache) -> None:
    for number in range(10):
        cache.put_invalid((f"k{number}", b"guess"))
    assert cache.valid(RIGHT) is not None


def test_an_invalidated_key_is_removed_and_a_read_from_before_is_not_cached(cache: KeyCache) -> None:
    generation = cache.generation
    cache.invalidate(KeySet(project="other"))
    assert cache.valid(RIGHT) is not None
    cache.invalidate(KeySet(project="proj_1"))
    assert cache.valid(RIGHT) is None
    cache.put_valid(RIGHT, KEY, ALL_MODELS, generation)
    assert cache.valid(RIGHT) is None
    cache.put_valid(RIGHT, replace(KEY, revoked=5.0), ALL_MODELS, cache.generation)
    assert cache.valid(RIGHT) is not None
