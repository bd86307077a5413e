"""Moderation policies in MongoDB and in memory."""

from __future__ import annotations

import pytest

from auth_billing.people.moderation_policies import ModerationPolicy, ModerationPolicyStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.moderation_policies import MongoModerationPolicyStore
from tests.fakes.moderation_policies import DictModerationPolicyStore

ALL = ModerationPolicy("classifier")
SOME = ModerationPolicy("moderation-rules", frozenset({"hate", "violence"}), prompts=False)


@pytest.fixture
def store(store_connection: StoreConnection | None) -> ModerationPolicyStore:
    return DictModerationPolicyStore() if store_connection is None else MongoModerationPolicyStore(store_connection)


async def test_a_policy_is_stored_replaced_and_removed_per_project(store: ModerationPolicyStore) -> None:
    await store.put("org-0", "proj_0", ALL)
    await store.put("org-0", "proj_1", SOME)
    assert await store.find("org-0", "proj_0") == ALL
    assert await store.find("org-0", "proj_1") == SOME
    assert await store.find("org-1", "proj_0") is None
    await store.put("org-0", "proj_0", SOME)
    assert await store.find("org-0", "proj_0") == SOME
    await store.remove("org-0", "proj_0")
    await store.remove("org-1", "proj_1")
    assert await store.find("org-0", "proj_0") is None
    assert await store.find("org-0", "proj_1") == SOME
