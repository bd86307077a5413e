"""Rate limits of subjects in MongoDB and in memory."""

from __future__ import annotations

import pytest

from auth_billing.rate_limits.limits import Limits
from auth_billing.rate_limits.ports import LimitStore
from auth_billing.store.rate_limits import MongoLimitStore
from tests.fakes.rate_buckets import DictLimitStore


@pytest.fixture(params=["mongo", "dict"])
def limits(request: pytest.FixtureRequest) -> LimitStore:
    return DictLimitStore() if request.param == "dict" else MongoLimitStore(request.getfixturevalue("connection"))


async def test_limits_are_changed_one_by_one(limits: LimitStore) -> None:
    assert await limits.find(["key:1", "project:1"]) == {}
    await limits.change("key:1", Limits(requests_per_minute=5))
    assert await limits.change("key:1", Limits(concurrent_requests=2)) == Limits(5, None, None, 2)
    assert await limits.find(["key:1", "project:1"]) == {"key:1": Limits(5, None, None, 2)}


async def test_removed_limits_are_gone(limits: LimitStore) -> None:
    await limits.change("key:1", Limits(requests_per_minute=5))
    await limits.change("key:2", Limits(requests_per_minute=5))
    for _ in range(2):
        await limits.remove("key:1")
    assert await limits.find(["key:1", "key:2"]) == {"key:2": Limits(5)}
