"""Both kinds of books, for tests that both must pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.money.books import Books
from auth_billing.store.balances import COLLECTION
from auth_billing.store.books import mongo_books
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from tests.fakes.books import DictBalanceStore, dict_books

SetAccount = Callable[..., Awaitable[None]]


@pytest.fixture(params=["memory", pytest.param("mongo", marks=pytest.mark.store)])
async def books_and_setter(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Books, SetAccount]]:
    if request.param == "memory":
        books = dict_books()
        balances = books.balances
        assert isinstance(balances, DictBalanceStore)

        async def set_in_memory(organisation: str, **fields: Any) -> None:
            await books.balances.open(organisation)
            fields = {{"held_map": "held", "open": "is_open"}.get(name, name): value for name, value in fields.items()}
            balances.balances[organisation] = replace(balances.balances[organisation], **fields)

        yield books, set_in_memory
        return
    connection = StoreConnection(request.getfixturevalue("database_url"), operation_ms=20_000)
    await create_indexes(connection)
    books = mongo_books(connection)

    async def set_in_store(organisation: str, **fields: Any) -> None:
        await books.balances.open(organisation)
        await connection.durable(COLLECTION).update_one({"_id": organisation}, {"$set": fields})

    yield books, set_in_store
    connection.close()


@pytest.fixture
def books(books_and_setter: tuple[Books, SetAccount]) -> Books:
    return books_and_setter[0]


@pytest.fixture
def set_account(books_and_setter: tuple[Books, SetAccount]) -> SetAccount:
    """Writes fields of an account's document, e.g. what is available."""
    return books_and_setter[1]
