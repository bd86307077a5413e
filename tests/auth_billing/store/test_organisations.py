"""Organisations and projects in MongoDB and in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from auth_billing.authenticator import Authenticator
from auth_billing.development_account import ensure_development_account
from auth_billing.people.organisation_records import Organisation, Project
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.organisations import MongoOrganisationStore
from tests.auth_billing.store.conftest import PeopleStores


async def test_the_last_owner_stays(people: PeopleStores) -> None:
    await people.accounts.ensure_organisation(Organisation("org-1", "Org", 1.0))
    for user in ("user-ada", "user-bob"):
        await people.accounts.add_owner("org-1", user)
        await people.accounts.add_owner("org-1", user)
    gone = await asyncio.gather(*(people.accounts.give_up_owner("org-1", user) for user in ("user-ada", "user-bob")))
    assert sorted(gone) == [False, True]
    assert await people.accounts.give_up_owner("org-1", "user-nobody")


async def test_projects_belong_to_their_organisation(people: PeopleStores) -> None:
    await people.accounts.ensure_organisation(Organisation("org-1", "Org", 1.0))
    assert await people.accounts.find_organisation("org-1") == Organisation("org-1", "Org", 1.0)
    assert await people.accounts.find_organisation("org-2") is None
    project = Project("proj_1", "org-1", "Web", 2.0)
    for each in (project, Project("proj_0", "org-1", "App", 1.0), Project("proj_2", "org-2", "Other", 0.5)):
        await people.accounts.ensure_project(each)
    assert [each.id for each in await people.accounts.projects("org-1")] == ["proj_0", "proj_1"]
    assert await people.accounts.find_project("org-2", "proj_1") is None
    await people.accounts.rename_project("org-2", "proj_1", "Stolen")
    await people.accounts.archive_project("org-2", "proj_1", 5.0)
    assert await people.accounts.find_project("org-1", "proj_1") == project
    await people.accounts.rename_project("org-1", "proj_1", "Site")
    for now in (6.0, 7.0):
        await people.accounts.archive_project("org-1", "proj_1", now)
    assert await people.accounts.find_project("org-1", "proj_1") == replace(project, name="Site", archived=6.0)


async def test_accesses_to_documents_are_audited_where_that_is_set(people: PeopleStores) -> None:
    await people.accounts.ensure_organisation(Organisation("org-1", "Org", 1.0))
    for on in (True, False):
        await people.accounts.set_document_audit("org-1", on=on)
        assert await people.accounts.find_organisation("org-1") == Organisation(
            "org-1", "Org", 1.0, audits_documents=on
        )
    await people.accounts.set_document_audit("org-2", on=True)
    assert await people.accounts.find_organisation("org-2") is None


@pytest.mark.store
async def test_an_organisation_is_created_once(connection: StoreConnection) -> None:
    accounts = MongoOrganisationStore(connection)
    await asyncio.gather(*(accounts.ensure_organisation(Organisation("o", f"name {i}", 1.0)) for i in range(8)))
    assert await connection.durable("organisations").count_documents({}) == 1


@pytest.mark.store
async def test_the_development_key_works_and_is_kept(connection: StoreConnection) -> None:
    accounts, keys, pepper = MongoOrganisationStore(connection), MongoApiKeyStore(connection), b"p" * 32
    first = await ensure_development_account(accounts, keys, pepper)
    assert await ensure_development_account(accounts, keys, pepper, first) == first
    assert (await Authenticator(keys, pepper).authenticate(first)).tenant == "development"
