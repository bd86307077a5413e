"""Service accounts in MongoDB and in memory."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord
from auth_billing.keys.service_accounts import ServiceAccounts, ServiceAccountStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.service_accounts import MongoServiceAccountStore
from tests.fakes.service_accounts import DictServiceAccountStore

OWNER = Actor("org-0", "user-0", Role.OWNER)


@pytest.fixture
def store(store_connection: StoreConnection | None) -> ServiceAccountStore:
    return DictServiceAccountStore() if store_connection is None else MongoServiceAccountStore(store_connection)


async def test_service_accounts_belong_to_a_project(store: ServiceAccountStore) -> None:
    accounts = ServiceAccounts(store)
    first = await accounts.create(OWNER, "proj_0", "First")
    second = await accounts.create(OWNER, "proj_0", "Second")
    await accounts.create(Actor("org-1", "", Role.OWNER), "proj_1", "Theirs")
    assert await accounts.all("org-0", "proj_0") == [first, second]
    assert (await accounts.rename(OWNER, "proj_0", first.id, "Renamed")).name == "Renamed"
    await accounts.remove(OWNER, "proj_0", second.id)
    assert [each.name for each in await accounts.all("org-0", "proj_0")] == ["Renamed"]
    for organisation, project, account in (
        ("org-0", "proj_0", second.id),
        ("org-0", "proj_1", first.id),
        ("org-1", "proj_0", first.id),
    ):
        with pytest.raises(NoSuchRecord):
            await accounts.find(organisation, project, account)
