"""An empty embedded store, and the stores of people in memory and in MongoDB."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from auth_billing.people.oidc.identity_records import IdentityStore
from auth_billing.people.organisation_records import OrganisationStore
from auth_billing.people.password_reset import PasswordResetStore
from auth_billing.people.people_records import InvitationStore, MembershipStore, UserStore
from auth_billing.people.second_factor import SecondFactorStore
from auth_billing.people.session_records import SessionStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.identities import MongoIdentityStore
from auth_billing.store.invitations import MongoInvitationStore
from auth_billing.store.memberships import MongoMembershipStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.password_resets import MongoPasswordResetStore
from auth_billing.store.second_factors import MongoSecondFactorStore
from auth_billing.store.sessions import MongoSessionStore
from auth_billing.store.users import MongoUserStore
from tests.fakes.accounts import DictOrganisationStore
from tests.fakes.people import (
    DictIdentityStore,
    DictInvitationStore,
    DictMembershipStore,
    DictPasswordResetStore,
    DictSecondFactorStore,
    DictUserStore,
)
from tests.fakes.sessions import DictSessionStore


@dataclass
class PeopleStores:
    users: UserStore
    memberships: MembershipStore
    invitations: InvitationStore
    accounts: OrganisationStore
    sessions: SessionStore
    resets: PasswordResetStore
    identities: IdentityStore
    factors: SecondFactorStore


@pytest.fixture
def people(store_connection: StoreConnection | None) -> PeopleStores:
    if store_connection is None:
        return PeopleStores(
            DictUserStore(),
            DictMembershipStore(),
            DictInvitationStore(),
            DictOrganisationStore(),
            DictSessionStore(),
            DictPasswordResetStore(),
            DictIdentityStore(),
            DictSecondFactorStore(),
        )
    return PeopleStores(
        MongoUserStore(store_connection),
        MongoMembershipStore(store_connection),
        MongoInvitationStore(store_connection),
        MongoOrganisationStore(store_connection),
        MongoSessionStore(store_connection),
        MongoPasswordResetStore(store_connection),
        MongoIdentityStore(store_connection),
        MongoSecondFactorStore(store_connection),
    )
