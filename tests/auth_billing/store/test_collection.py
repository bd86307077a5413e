"""Idempotent insertion: duplicates are skipped, every other write error is raised."""

from __future__ import annotations

from typing import Any

import pymongo
import pymongo._csot
import pytest
from pymongo.errors import BulkWriteError

from auth_billing.errors import StoreUnavailable
from auth_billing.store.collection import INDEX_TIMEOUT, Collection
from auth_billing.store.connection import StoreConnection


@pytest.mark.store
async def test_stored_documents_are_not_changed(connection: StoreConnection) -> None:
    collection = connection.durable("things")
    assert await collection.insert_new([{"_id": "a", "value": 1}]) == [True]
    assert await collection.insert_new([{"_id": "a", "value": 2}, {"_id": "b", "value": 3}]) == [False, True]
    assert {each["_id"]: each["value"] async for each in collection.find()} == {"a": 1, "b": 3}


class _Failing:
    def __init__(self, codes: list[int], concern: list[dict[str, int]]) -> None:
        errors = [{"index": index, "code": code} for index, code in enumerate(codes)]
        self._details = {"writeErrors": errors, "writeConcernErrors": concern}

    async def insert_many(self, documents: Any, ordered: bool) -> None:
        raise BulkWriteError(self._details)


@pytest.mark.parametrize(("codes", "concern"), [([11000, 121], []), ([], [{"code": 64}]), ([11000], [{"code": 64}])])
async def test_other_errors_are_raised(codes: list[int], concern: list[dict[str, int]]) -> None:
    with pytest.raises(StoreUnavailable):
        await Collection(_Failing(codes, concern)).insert_new([{"_id": "a"}, {"_id": "b"}])


async def test_duplicates_alone_are_no_error() -> None:
    assert await Collection(_Failing([11000, 11000], [])).insert_new([{"_id": "a"}, {"_id": "b"}]) == [False, False]


class _Indexed:
    """A driver's collection that records the timeout, in seconds, in which an index is created."""

    timeout: float | None = None

    @property
    def database(self) -> Any:
        return self

    client = admin = database

    async def command(self, name: str) -> None:
        assert (name, pymongo._csot.get_timeout()) == ("ping", None)

    async def create_index(self, keys: Any) -> None:
        self.timeout = pymongo._csot.get_timeout()


async def test_an_index_may_take_longer_than_other_operations() -> None:
    """On a collection of many documents an index takes minutes, and no gateway starts before it exists."""
    raw = _Indexed()
    await Collection(raw).create_index([("at", 1)])
    assert raw.timeout == INDEX_TIMEOUT
    assert pymongo._csot.get_timeout() is None
