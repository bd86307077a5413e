"""A principal may do what its scopes say."""

from __future__ import annotations

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope


def test_a_principal_has_the_scopes_of_a_project_unless_given_others() -> None:
    caller = Principal("key-1", "org-1", "salt")
    assert caller.may(Scope.CHAT_COMPLETIONS)
    assert not caller.may(Scope.ORGANIZATION_ADMIN)
    assert not Principal("key-1", "org-1", "salt", scopes=frozenset()).may(Scope.MODELS_READ)


def test_the_requester_is_the_user_or_else_the_key() -> None:
    """A person's keys and browser sessions have one share."""
    assert Principal("key-1", "org-1", "salt", user="user-1").requester == "user-1"
    assert Principal("", "org-1", "salt", user="user-1").requester == "user-1"
    assert Principal("key-1", "org-1", "salt").requester == "key-1"
