"""Creates the development account, returns its API key: the known one if valid, else a new one, old ones revoked.

It is the organisation, project and API key of a new installation without users. Only the launchers for development
create it; a production platform has no default key.
"""

from __future__ import annotations

import time

from auth_billing.access.roles import OPERATORS
from auth_billing.authenticator import Authenticator
from auth_billing.errors import InvalidApiKey
from auth_billing.keys.key_records import ApiKeyStore
from auth_billing.people.organisation_records import Organisation, OrganisationStore, Project
from router.messages import KeySet

ORGANISATION = OPERATORS
PROJECT = "development-default"


async def ensure_development_account(
    accounts: OrganisationStore, api_keys: ApiKeyStore, pepper: bytes, known_key: str | None = None
) -> str:
    """Create the development account (organisation, project, API key) if missing; return a valid API key's text.

    `known_key` (from an earlier `client.env`) is returned if it is still valid. Otherwise the account's keys are
    revoked, since their texts are lost, and a new key is created.

    Raises:
        StoreUnavailable: nothing was changed; `known_key` may be valid.
    """
    service = Authenticator(api_keys, pepper)
    if known_key is not None and await _verifies(service, known_key):
        return known_key
    now = time.time()
    await accounts.ensure_organisation(Organisation(ORGANISATION, "Development", now))
    await accounts.ensure_project(Project(PROJECT, ORGANISATION, "Default", now))
    await api_keys.revoke(KeySet(project=PROJECT), now)
    return (await service.create_api_key(ORGANISATION, PROJECT, name="client.env")).text


async def _verifies(service: Authenticator, key: str) -> bool:
    try:
        await service.authenticate(key)
    except InvalidApiKey:
        return False
    return True
