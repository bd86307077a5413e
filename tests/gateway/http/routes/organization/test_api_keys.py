"""A project's API keys end with the project, and an admin key with its owner."""

from __future__ import annotations

import openai
import pytest

from auth_billing.authenticator import Authenticator
from tests.gateway.http.routes.organization.conftest import Office, key_of


def accounts_of(office: Office) -> Authenticator:
    """What a gateway would say of the keys that were made."""
    return Authenticator(office.stage.organisation.api_keys, b"p" * 32)


async def test_keys_are_revoked_with_their_project_and_their_owner(office: Office) -> None:
    made = await office.sdk.projects.service_accounts.create("proj_0", name="Importer")
    await office.sdk.projects.archive("proj_0")
    with pytest.raises(Exception, match="revoked"):
        await accounts_of(office).authenticate(made.api_key.value)
    with pytest.raises(openai.NotFoundError):
        await office.sdk.projects.service_accounts.create("proj_0", name="Another")
    admin = await office.client(key_of("admin")).admin.organization.admin_api_keys.create(name="mine")
    await office.sdk.users.delete("user-admin")
    with pytest.raises(Exception, match="revoked"):
        await accounts_of(office).authenticate(admin.value)
