"""A principal may do what its scopes say."""

from __future__ import annotations

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope


def test_a_principal_has_the_scopes_of_a_project_unless_given_others() -> None:
    caller = Principal("key-1", "org-1", "salt")
    assert caller.may(Scope.CHAT_COMPLETIONS)
    assert not caller.may(Scope.ORGANIZATION_ADMIN)
    assert not Principal("key-1", "org-1", "salt", scopes=frozenset()).may(Scope.MODELS_READ)
