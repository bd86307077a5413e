"""Admin API keys, through the stock SDK's admin client."""

from __future__ import annotations

import openai
import pytest

from auth_billing.access.scopes import ADMIN_SCOPES, Scope
from auth_billing.authenticator import Authenticator
from tests.gateway.http.routes.organization.conftest import AdminApi, key_of


def authenticator_of(admin_api: AdminApi) -> Authenticator:
    """Return the authenticator of a gateway with the same store."""
    return Authenticator(admin_api.stage.organisation.api_keys, b"p" * 32)


async def test_admin_keys_are_created_listed_and_revoked(admin_api: AdminApi) -> None:
    keys = admin_api.sdk.admin_api_keys
    made = await keys.create(name="Console", expires_in_seconds=60)
    principal = await authenticator_of(admin_api).authenticate(made.value)
    assert (principal.project, principal.scopes, principal.user) == ("", ADMIN_SCOPES, "user-owner")
    assert (made.owner.type, made.owner.role, made.expires_at - made.created_at) == ("user", "owner", 60)
    reading = await keys.create(name="Reader", extra_body={"scopes": ["organization.read"]})
    assert (await authenticator_of(admin_api).authenticate(reading.value)).scopes == {Scope.ORGANIZATION_READ}
    found = await keys.retrieve(made.id)
    assert not hasattr(found, "value")
    assert [each.name async for each in keys.list(order="desc")] == [
        each.name for each in reversed((await keys.list()).data)
    ]
    assert (await keys.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await keys.retrieve(made.id)
    by_operator = await admin_api.client(key_of("operator")).admin.organization.admin_api_keys.create(name="Operator's")
    assert (by_operator.owner.type, by_operator.owner.name) == ("service_account", "operator")
