"""Issuing a key: its text is known only to the caller, the store keeps a digest."""

from __future__ import annotations

from auth_billing.access.scopes import Scope
from auth_billing.keys import key_format
from auth_billing.keys.key_issuance import KeySpec, issue
from tests.fakes.accounts import DictApiKeyStore

PEPPER = b"p" * 32


async def test_the_store_has_the_digest_and_the_properties_of_the_key() -> None:
    store = DictApiKeyStore()
    spec = KeySpec("name", scopes=frozenset({Scope.EMBEDDINGS}), models=frozenset({"m"}), expires=9.0)
    issued = await issue(store, PEPPER, organisation="org", project="proj", spec=spec, user="user-1", now=5.0)
    record = store.records[issued.key.key_id]
    assert record == issued.record
    assert record.digest == key_format.digest(PEPPER, issued.key.secret)
    assert record.last4 == issued.key.text[-4:]
    assert (record.created, record.expires, record.scopes, record.models) == (5.0, 9.0, spec.scopes, spec.models)
    assert (record.organisation, record.project, record.user, record.name) == ("org", "proj", "user-1", "name")
    assert issued.key.secret not in repr(issued)


async def test_two_keys_differ() -> None:
    store = DictApiKeyStore()
    issued = [
        await issue(store, PEPPER, organisation="org", project="proj", spec=KeySpec("name"), user="", now=5.0)
        for _ in range(2)
    ]
    assert len({each.key.text for each in issued}) == len(store.records) == 2
