"""API keys in MongoDB and in memory: stored, listed, changed and revoked alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.access.scopes import PROJECT_SCOPES, Scope
from auth_billing.keys.key_records import ApiKeyRecord, ApiKeyStore
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.connection import StoreConnection
from router.messages import KeySet
from tests.fakes.accounts import DictApiKeyStore

KEY = ApiKeyRecord("k0", b"\0digest\xff", "abcd", "org", "proj", "name", created=1.5, user="user-1")


KEYS = (
    KEY,
    replace(KEY, key_id="k1", created=2.5, user=""),
    replace(KEY, key_id="k2", project="other"),
    replace(KEY, key_id="k3", project=""),
    replace(KEY, key_id="k4", organisation="rival", project="rivals"),
)


@pytest.fixture
def store(store_connection: StoreConnection | None) -> ApiKeyStore:
    return DictApiKeyStore() if store_connection is None else MongoApiKeyStore(store_connection)


@pytest.mark.parametrize(
    ("ended", "which"),
    [
        (KeySet(key="k1"), {"k1"}),
        (KeySet(project="proj"), {"k0", "k1"}),
        (KeySet(organisation="org"), {"k0", "k1", "k2", "k3"}),
        (KeySet(user="user-1"), {"k0", "k2", "k3", "k4"}),
        (KeySet(organisation="org", user="user-1"), {"k0", "k2", "k3"}),
        (KeySet(organisation="org", user="user-1", admin_only=True), {"k3"}),
        (KeySet(admin_only=True), set()),
        (KeySet(), set()),
        (KeySet(key="k0", organisation="rival"), set()),
    ],
)
async def test_revocation_selects_keys_by_their_fields(store: ApiKeyStore, ended: KeySet, which: set[str]) -> None:
    for key in KEYS:
        await store.add(key)
    assert await store.revoke(ended, 5.0) == len(which)
    assert await store.revoke(ended, 6.0) == 0
    found = [await store.find(key.key_id) for key in KEYS]
    assert {key.key_id: key.revoked for key in found if key and key.revoked} == dict.fromkeys(which, 5.0)


async def test_unrevoked_keys_are_listed_newest_first(store: ApiKeyStore) -> None:
    for key in KEYS:
        await store.add(key)
    assert await store.unrevoked("org", "proj") == [KEYS[1], KEYS[0]]
    assert await store.unrevoked("org", "") == [KEYS[3]]
    assert await store.unrevoked("rival", "proj") == []
    await store.revoke(KeySet(key="k1"), 5.0)
    assert await store.unrevoked("org", "proj") == [KEYS[0]]


async def test_rename_expiry_and_last_use_are_stored(store: ApiKeyStore) -> None:
    for key in KEYS[:2]:
        await store.add(key)
    await store.rename("k0", "new")
    await store.expire("k0", 9.0)
    await store.expire("k0", 10.0)
    await store.set_last_used({"k0": 5.0, "k1": 4.0})
    await store.set_last_used({"k0": 3.0, "gone": 4.0})
    assert await store.find("k0") == replace(KEY, name="new", expires=9.0, last_used=5.0)
    await store.expire("k0", 8.0)
    assert await store.find("k0") == replace(KEY, name="new", expires=8.0, last_used=5.0)
    assert await store.find("k1") == replace(KEYS[1], last_used=4.0)


@pytest.mark.store
async def test_a_key_is_read_as_stored(connection: StoreConnection) -> None:
    keys = MongoApiKeyStore(connection)
    await keys.add(KEY)
    assert await keys.find("k0") == KEY
    assert await keys.find("k1") is None


@pytest.mark.store
async def test_scopes_and_models_of_a_key_are_read_as_stored(connection: StoreConnection) -> None:
    keys = MongoApiKeyStore(connection)
    scopes = frozenset({Scope.EMBEDDINGS, Scope.MODELS_READ})
    key = replace(KEY, scopes=scopes, models=frozenset({"b", "a"}), user="user-1", last_used=3.5)
    await keys.add(key)
    assert await keys.find("k0") == key


@pytest.mark.store
async def test_a_key_stored_before_scopes_has_all_scopes(
    connection: StoreConnection,
) -> None:
    old = {"digest": b"d", "last4": "abcd", "organisation": "org", "project": "p", "name": "n", "created": 1.5}
    await connection.durable("api_keys").insert_one({"_id": "k9", **old})
    key = await MongoApiKeyStore(connection).find("k9")
    assert key is not None
    assert (key.rights, key.models, key.user) == (PROJECT_SCOPES, None, "")
