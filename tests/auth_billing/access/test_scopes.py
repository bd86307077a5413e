"""Scopes: a key never has more rights than its kind allows."""

from collections.abc import Set as AbstractSet
from dataclasses import replace

import pytest

from auth_billing.access.model_access import ALL_MODELS
from auth_billing.access.scopes import ADMIN_SCOPES, PROJECT_SCOPES, Scope, known
from auth_billing.authenticator import Authenticator
from auth_billing.keys.key_records import ApiKeyRecord
from tests.fakes.accounts import DictApiKeyStore

KEY = ApiKeyRecord("k0", b"digest", "abcd", "org", "project", "name", created=1.0)


@pytest.mark.parametrize(
    ("project", "scopes", "rights"),
    [
        ("project", None, PROJECT_SCOPES),
        ("project", frozenset({Scope.EMBEDDINGS}), {Scope.EMBEDDINGS}),
        ("project", frozenset(), set()),
        ("project", ADMIN_SCOPES | {Scope.EMBEDDINGS}, {Scope.EMBEDDINGS}),
        ("", None, ADMIN_SCOPES),
        ("", frozenset({Scope.ORGANIZATION_READ}), {Scope.ORGANIZATION_READ}),
        ("", PROJECT_SCOPES, set()),
    ],
)
def test_rights(project: str, scopes: frozenset[Scope] | None, rights: AbstractSet[Scope]) -> None:
    assert replace(KEY, project=project, scopes=scopes).rights == rights


def test_unknown_scope_names_give_no_right() -> None:
    assert known(["embeddings", "world.domination"]) == {Scope.EMBEDDINGS}


async def test_a_principal_has_the_scopes_of_its_key() -> None:
    store = DictApiKeyStore()
    service = Authenticator(store, b"p" * 32)
    key = await service.create_api_key("org", "proj", name="n")
    store.records[key.key_id] = replace(
        store.records[key.key_id], scopes=frozenset({Scope.EMBEDDINGS}), models=frozenset({"m"}), user="user-1"
    )
    caller = await service.authenticate(key.text)
    assert (caller.project, caller.user) == ("proj", "user-1")
    assert caller.models == ALL_MODELS.restricted_to(frozenset({"m"}))
    assert caller.may(Scope.EMBEDDINGS)
    assert not caller.may(Scope.CHAT_COMPLETIONS)
