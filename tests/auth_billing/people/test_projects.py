"""Projects: permissions and refusals."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord, NotPermitted
from tests.auth_billing.people.conftest import TeamFixture

ONE_PER_ROLE = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "viewer": Role.VIEWER}


async def test_projects(team: TeamFixture) -> None:
    organisation = await team.projects.create_organisation("Acme")
    owner = Actor(organisation.id, "owner", Role.OWNER)
    default = await team.projects.default(organisation.id)
    team.clock.now += 1
    web = await team.projects.create(owner, "Web")
    assert await team.projects.all(organisation.id) == [default, web]
    assert (await team.projects.rename(owner, web.id, " Site ")).name == "Site"
    await team.projects.archive(owner, default.id)
    assert (await team.projects.default(organisation.id)).id == web.id
    assert len(await team.projects.all(organisation.id, archived=True)) == 2
    for stranger in (Actor("org-2", "x", Role.OWNER), Actor(organisation.id, "x", Role.MEMBER)):
        with pytest.raises((NoSuchRecord, NotPermitted)):
            await team.projects.archive(stranger, web.id)
