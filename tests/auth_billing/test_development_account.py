"""The development account: one usable key, kept while it is valid."""

import pytest

from auth_billing.authenticator import Authenticator
from auth_billing.development_account import ORGANISATION, PROJECT, ensure_development_account
from auth_billing.errors import InvalidApiKey, StoreUnavailable
from auth_billing.keys import key_format
from tests.fakes.accounts import DictApiKeyStore, DictOrganisationStore

PEPPER = b"p" * 32


@pytest.fixture
def accounts() -> DictOrganisationStore:
    return DictOrganisationStore()


@pytest.fixture
def keys() -> DictApiKeyStore:
    return DictApiKeyStore()


async def test_a_new_installation_gets_an_organisation_a_project_and_one_key(
    accounts: DictOrganisationStore, keys: DictApiKeyStore
) -> None:
    key = await ensure_development_account(accounts, keys, PEPPER)
    assert (list(accounts.organisations), list(accounts.all_projects)) == ([ORGANISATION], [PROJECT])
    assert (await Authenticator(keys, PEPPER).authenticate(key)).tenant == ORGANISATION


async def test_a_valid_key_is_kept(accounts: DictOrganisationStore, keys: DictApiKeyStore) -> None:
    key = await ensure_development_account(accounts, keys, PEPPER)
    assert await ensure_development_account(accounts, keys, PEPPER, key) == key
    assert len(keys.records) == 1


@pytest.mark.parametrize("lost", [None, "", "garbage", pytest.param(key_format.generate().text, id="foreign")])
async def test_a_lost_key_is_revoked_and_replaced(
    accounts: DictOrganisationStore, keys: DictApiKeyStore, lost: str | None
) -> None:
    old = await ensure_development_account(accounts, keys, PEPPER)
    new = await ensure_development_account(accounts, keys, PEPPER, lost)
    service = Authenticator(keys, PEPPER)
    await service.authenticate(new)
    with pytest.raises(InvalidApiKey):
        await service.authenticate(old)


async def test_while_the_store_is_away_nothing_changes(accounts: DictOrganisationStore, keys: DictApiKeyStore) -> None:
    key = await ensure_development_account(accounts, keys, PEPPER)
    keys.absence.away = True
    with pytest.raises(StoreUnavailable):
        await ensure_development_account(accounts, keys, PEPPER, key)
    keys.absence.away = False
    assert await ensure_development_account(accounts, keys, PEPPER, key) == key
