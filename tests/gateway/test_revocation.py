"""A revoked key is refused at once in every gateway, although gateways cache keys."""

from __future__ import annotations

from typing import Any

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.keys.key_invalidation import invalidation_publisher
from auth_billing.keys.key_issuance import IssuedKey, KeySpec
from auth_billing.keys.key_management import ApiKeys
from auth_billing.people.organisation_records import Organisation, Project
from auth_billing.people.people_records import Membership
from router.messages import KeySet
from tests.fakes.accounts import DictOrganisationStore
from tests.fakes.administration import DictOrganisation
from tests.fakes.people import DictMembershipStore
from tests.fakes.rate_buckets import DictLimitStore
from tests.gateway.conftest import PEPPER, SetStage, eventually

ENDS = ["key", "project", "user", "organisation"]


@pytest.mark.parametrize("ended", ENDS)
async def test_a_revoked_key_is_refused_at_once(set_stage: SetStage, ended: str) -> None:
    stage = await set_stage()
    accounts = DictOrganisationStore()
    await accounts.ensure_organisation(Organisation("acme", "Acme", 1.0))
    await accounts.ensure_project(Project("proj", "acme", "Web", 1.0))
    memberships = DictMembershipStore()
    await memberships.add(Membership("acme", "user-1", Role.ADMIN, 1.0))
    elsewhere = stage.worker.bus  # the announcement comes from another process
    keys = ApiKeys(
        stage.accounts.store,
        accounts,
        memberships,
        DictOrganisation().administration.budgets,
        DictLimitStore(),
        PEPPER,
        invalidation_publisher(elsewhere),
    )
    persons, programs = [
        await keys.create(Actor("acme", user, Role.ADMIN), "proj", KeySpec("k")) for user in ("user-1", "")
    ]

    async def answer(issued: IssuedKey) -> int:
        headers = {"authorization": f"Bearer {issued.key.text}"}
        return (await stage.client.get("/v1/models", headers=headers)).status_code

    assert [await answer(each) for each in (persons, programs)] == [200, 200]
    before = stage.accounts.generation
    sets: dict[str, Any] = {"key": persons.record.key_id, "project": "proj", "user": "user-1", "organisation": "acme"}
    await keys.revoke_all(KeySet(**{ended: sets[ended]}))
    await eventually(lambda: stage.accounts.generation > before)
    assert await answer(persons) == 401
    assert await answer(programs) == (200 if ended in ("key", "user") else 401)
