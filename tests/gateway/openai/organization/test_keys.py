"""Models of API keys and service accounts."""

from __future__ import annotations

import pytest

from auth_billing.access.scopes import Scope
from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.organization.keys import (
    AdminApiKeyCreate,
    KeyCreate,
    ServiceAccountCreate,
    ServiceAccountUpdate,
    format_key_id,
    parse_key_id,
)


def test_key_ids_have_a_prefix() -> None:
    assert format_key_id("abc") == "key_abc"
    assert parse_key_id("key_abc") == parse_key_id("abc") == "abc"
    assert format_key_id("") == ""


def test_options_of_a_key_are_optional() -> None:
    assert KeyCreate.parse({}).scopes is None
    account = ServiceAccountCreate.parse({"name": "x", "scopes": ["embeddings"], "expires_in_seconds": 60})
    assert (account.scopes, account.expires_in_seconds) == ([Scope.EMBEDDINGS], 60)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes[0]"),
        ({"expires_in_seconds": 31_536_001}, "expires_in_seconds"),
        ({"name": ""}, "name"),
    ],
)
def test_invalid_options_are_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        AdminApiKeyCreate.parse({"name": "x", **fields})
    assert caught.value.param == param


def test_a_service_accounts_role_cannot_be_changed() -> None:
    assert ServiceAccountUpdate.parse({"role": "member"}).name is None
    with pytest.raises(UnsupportedParameter):
        ServiceAccountUpdate.parse({"role": "owner"})
