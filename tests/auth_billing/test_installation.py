"""The operator's services on stores in memory: who is an operator, and usage of all organisations as a table."""

from __future__ import annotations

import time

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.development_account import ORGANISATION
from auth_billing.errors import NoSuchRecord, NotPermitted, UnacceptableValue
from auth_billing.money.credit import CreditKind
from auth_billing.money.installation_usage import InstallationUsageRow
from auth_billing.people.organisation_records import Organisation
from tests.fakes.administration import DictOrganisation

DAY = 86_400


def test_operators_administer_the_development_organisation() -> None:
    installation = DictOrganisation().administration.installation
    installation.require_operator(Actor(ORGANISATION, "user-1", Role.ADMIN))
    for other in (Actor(ORGANISATION, "user-1", Role.MEMBER), Actor("org-1", "user-1", Role.OWNER)):
        with pytest.raises(NotPermitted):
            installation.require_operator(other)


async def test_an_interrupted_credit_entry_is_audited_by_its_repetition() -> None:
    stores = DictOrganisation()
    installation = stores.administration.installation
    await stores.accounts.ensure_organisation(Organisation("org-1", "One", 1.0))
    await installation.credit.promo("org-1", 5, "r-1")  # the process died before the audit log
    for _ in range(2):
        await installation.change_credit(CreditKind.PROMO, "org-1", 5, "r-1")
    assert [each.organisation for each in stores.audit_log.entries] == ["org-1", ORGANISATION]
    with pytest.raises(NoSuchRecord):
        await installation.change_credit(CreditKind.PROMO, "org-2", 5, "r-1")


async def test_usage_of_all_organisations_is_exact_in_csv() -> None:
    stores = DictOrganisation()
    await stores.accounts.ensure_organisation(Organisation("org-1", "=One", 1.0))
    today = int(time.time()) // DAY * DAY
    rows = [InstallationUsageRow(today - days * DAY, "org-1", "tiny", 1, 20, 5, 3, 1_000_001) for days in (3, 1, 0)]
    stores.usage_of_all.found = rows
    usage = await stores.administration.installation.usage_of_all(2)
    assert (usage.rows, usage.names) == (rows[1:], {"org-1": "=One"})
    with await usage.csv() as file:
        header, first, _ = file.read().decode().splitlines()
    assert header.split(",")[1] == '"organization_id"'
    assert "'=One" in first
    assert first.endswith("0.001000001")
    for days in (0, 367):
        with pytest.raises(UnacceptableValue):
            await stores.administration.installation.usage_of_all(days)
