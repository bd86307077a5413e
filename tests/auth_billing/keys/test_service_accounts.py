"""Service accounts: only administrators manage them, and names are checked."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord, NotPermitted, UnacceptableValue
from auth_billing.keys.service_accounts import ServiceAccounts
from tests.fakes.service_accounts import DictServiceAccountStore

OWNER = Actor("org-0", "user-0", Role.OWNER)
MEMBER = Actor("org-0", "user-1", Role.MEMBER)


async def test_only_administrators_manage_service_accounts() -> None:
    accounts = ServiceAccounts(DictServiceAccountStore())
    account = await accounts.create(OWNER, "proj_0", "Robot")
    with pytest.raises(NotPermitted):
        await accounts.create(MEMBER, "proj_0", "Mine")
    with pytest.raises(NotPermitted):
        await accounts.rename(MEMBER, "proj_0", account.id, "Mine")
    with pytest.raises(NotPermitted):
        await accounts.remove(MEMBER, "proj_0", account.id)
    assert await accounts.all("org-0", "proj_0") == [account]


async def test_invalid_names_and_unknown_accounts_are_refused() -> None:
    accounts = ServiceAccounts(DictServiceAccountStore(), clock=lambda: 5.0)
    with pytest.raises(UnacceptableValue):
        await accounts.create(OWNER, "proj_0", " ")
    account = await accounts.create(OWNER, "proj_0", " Robot ")
    assert (account.name, account.created, account.organisation) == ("Robot", 5.0, "org-0")
    with pytest.raises(UnacceptableValue):
        await accounts.rename(OWNER, "proj_0", account.id, "a\nb")
    with pytest.raises(NoSuchRecord):
        await accounts.remove(OWNER, "proj_1", account.id)
