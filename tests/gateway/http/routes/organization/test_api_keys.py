"""A project's API keys end with the project, and an admin key with its owner."""

from __future__ import annotations

import openai
import pytest

from auth_billing.authenticator import Authenticator
from tests.gateway.http.routes.organization.conftest import AdminApi, key_of


def authenticator_of(admin_api: AdminApi) -> Authenticator:
    """Return the authenticator of a gateway with the same store."""
    return Authenticator(admin_api.stage.organisation.api_keys, b"p" * 32)


async def test_keys_are_revoked_with_their_project_and_their_owner(admin_api: AdminApi) -> None:
    made = await admin_api.sdk.projects.service_accounts.create("proj_0", name="Importer")
    await admin_api.sdk.projects.archive("proj_0")
    with pytest.raises(Exception, match="revoked"):
        await authenticator_of(admin_api).authenticate(made.api_key.value)
    with pytest.raises(openai.NotFoundError):
        await admin_api.sdk.projects.service_accounts.create("proj_0", name="Another")
    admin = await admin_api.client(key_of("admin")).admin.organization.admin_api_keys.create(name="mine")
    await admin_api.sdk.users.delete("user-admin")
    with pytest.raises(Exception, match="revoked"):
        await authenticator_of(admin_api).authenticate(admin.value)
