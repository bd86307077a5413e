"""Model policies in MongoDB and in memory."""

from __future__ import annotations

import pytest

from auth_billing.access.model_access import ModelPolicy, PolicyMode
from auth_billing.people.model_policies import ModelPolicyStore, PolicySubject
from auth_billing.store.connection import StoreConnection
from auth_billing.store.model_policies import MongoModelPolicyStore
from tests.fakes.model_policies import DictModelPolicyStore

PROJECT, MEMBERS, ADA = (
    PolicySubject("project", "proj_0"),
    PolicySubject("role", "member"),
    PolicySubject("user", "user-ada"),
)
ONLY = ModelPolicy(PolicyMode.ALLOW, frozenset({"a", "org/b"}))
NOT = ModelPolicy(PolicyMode.DENY, frozenset({"a"}))


@pytest.fixture
def store(store_connection: StoreConnection | None) -> ModelPolicyStore:
    return DictModelPolicyStore() if store_connection is None else MongoModelPolicyStore(store_connection)


async def test_a_policy_is_stored_replaced_and_removed_per_organisation(store: ModelPolicyStore) -> None:
    await store.put("org-0", PROJECT, ONLY)
    await store.put("org-0", ADA, NOT)
    await store.put("org-1", ADA, ONLY)
    assert await store.find("org-0", [PROJECT, MEMBERS]) == {PROJECT: ONLY}
    assert await store.all("org-0") == {PROJECT: ONLY, ADA: NOT}
    await store.put("org-0", PROJECT, NOT)
    await store.remove("org-0", ADA)
    await store.remove("org-0", MEMBERS)
    assert await store.all("org-0") == {PROJECT: NOT}
    assert await store.find("org-1", [PROJECT, ADA]) == {ADA: ONLY}
