"""An empty embedded store, and the stores of people in memory and in MongoDB."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from auth_billing.people.organisation_records import OrganisationStore
from auth_billing.people.people_records import InvitationStore, MembershipStore, UserStore
from auth_billing.people.session_records import SessionStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from auth_billing.store.invitations import MongoInvitationStore
from auth_billing.store.memberships import MongoMembershipStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.sessions import MongoSessionStore
from auth_billing.store.users import MongoUserStore
from tests.fakes.accounts import DictOrganisationStore
from tests.fakes.people import DictInvitationStore, DictMembershipStore, DictUserStore
from tests.fakes.sessions import DictSessionStore


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[StoreConnection]:
    """Return a connection to an empty embedded store with all indexes."""
    connection = StoreConnection(database_url, operation_ms=20_000)
    await create_indexes(connection)
    yield connection
    connection.close()


@dataclass
class PeopleStores:
    users: UserStore
    memberships: MembershipStore
    invitations: InvitationStore
    accounts: OrganisationStore
    sessions: SessionStore


@pytest.fixture
def people(store_connection: StoreConnection | None) -> PeopleStores:
    if store_connection is None:
        return PeopleStores(
            DictUserStore(), DictMembershipStore(), DictInvitationStore(), DictOrganisationStore(), DictSessionStore()
        )
    return PeopleStores(
        MongoUserStore(store_connection),
        MongoMembershipStore(store_connection),
        MongoInvitationStore(store_connection),
        MongoOrganisationStore(store_connection),
        MongoSessionStore(store_connection),
    )
