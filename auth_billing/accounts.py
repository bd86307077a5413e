"""The development account: what a new installation answers to before anybody has signed up.

Only a launcher asks for it; a platform in production has no key that nobody asked for.
"""

from __future__ import annotations

import time

from auth_billing.errors import InvalidApiKey
from auth_billing.records import AccountStore, ApiKeyStore, Organisation, Project
from auth_billing.service import AuthBilling
from router.messages import KeySet

ORGANISATION = "development"
PROJECT = "development-default"


async def ensure_development_account(
    accounts: AccountStore, api_keys: ApiKeyStore, pepper: bytes, known_key: str | None = None
) -> str:
    """The development account's API key, as text.

    `known_key` (from an earlier `client.env`) is kept if it still verifies. Otherwise nobody can know the account's
    keys any more, so they are revoked and one new key takes their place.

    Raises:
        StoreUnavailable: nothing was decided; `known_key` may well be good.
    """
    service = AuthBilling(api_keys, pepper)
    if known_key is not None and await _verifies(service, known_key):
        return known_key
    now = time.time()
    await accounts.ensure_organisation(Organisation(ORGANISATION, "Development", now))
    await accounts.ensure_project(Project(PROJECT, ORGANISATION, "Default", now))
    await api_keys.revoke(KeySet(project=PROJECT), now)
    return (await service.create_api_key(ORGANISATION, PROJECT, name="client.env")).text


async def _verifies(service: AuthBilling, key: str) -> bool:
    try:
        await service.authenticate(key)
    except InvalidApiKey:
        return False
    return True
