"""Owners of keys in API models: users, service accounts, and the operator."""

from __future__ import annotations

import pytest

from auth_billing.access.scopes import Scope
from auth_billing.keys.key_records import ApiKeyRecord
from gateway.http.routes.organization.key_owners import OPERATOR, Owners, redacted
from gateway.openai.organization.keys import KeyOwner

ADA = KeyOwner(id="user-ada", name="Ada", email="ada@example.org", created_at=1, role="owner")
ROBOT = KeyOwner(id="svc-1", name="Robot", created_at=2, role="member")
OWNERS = Owners({ADA.id: ADA}, {ROBOT.id: ROBOT})


def record(user: str) -> ApiKeyRecord:
    scopes = frozenset({Scope.EMBEDDINGS})
    return ApiKeyRecord("kid", b"digest", "wxyz", "org", "proj", "Key", 5.9, scopes=scopes, user=user)


def test_a_project_key_names_its_user_or_its_service_account() -> None:
    by_user, by_account = OWNERS.project_key(record(ADA.id)).owner, OWNERS.project_key(record(ROBOT.id)).owner
    assert (by_user.type, by_user.user, by_user.service_account) == ("user", ADA, None)
    assert (by_account.type, by_account.service_account, by_account.user) == ("service_account", ROBOT, None)


@pytest.mark.parametrize(("user", "name"), [("", OPERATOR), ("svc-deleted", "")])
def test_a_key_without_a_known_owner(user: str, name: str) -> None:
    owner = OWNERS.admin_key(record(user)).owner
    assert (owner.type, owner.id, owner.name, owner.created_at) == ("service_account", user, name, 5)


def test_the_secret_is_in_the_response_that_creates_the_key_only() -> None:
    assert OWNERS.admin_key(record(ADA.id), "hr_live_secret").value == "hr_live_secret"
    shown = OWNERS.admin_key(record(ADA.id))
    assert "value" not in shown.model_dump()
    assert shown.redacted_value == redacted(record(ADA.id)) == "hr_live_kid_...wxyz"
