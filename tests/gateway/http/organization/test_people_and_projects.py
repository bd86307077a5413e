"""Projects, people and invitations by the stock SDK's admin client; each act is in the audit log."""

from __future__ import annotations

import openai
import pytest

from auth_billing.audit_log import Event
from tests.gateway.http.organization.conftest import Office, key_of


async def test_a_projects_life(office: Office) -> None:
    projects = office.sdk.projects
    made = await projects.create(name="Chat bot")
    assert (made.object, made.name, made.status, made.archived_at) == (
        "organization.project",
        "Chat bot",
        "active",
        None,
    )
    assert (await projects.update(made.id, name="Support")).name == "Support"
    assert (await projects.retrieve(made.id)).name == "Support"
    archived = await projects.archive(made.id)
    assert archived.status == "archived"
    assert archived.archived_at >= archived.created_at
    assert [each.id async for each in projects.list()] == ["proj_0"]
    assert [each.id async for each in projects.list(include_archived=True)] == ["proj_0", made.id]
    assert [(act.event, act.target, act.project) for act in office.acts] == [
        (event, made.id, made.id) for event in (Event.PROJECT_CREATED, Event.PROJECT_UPDATED, Event.PROJECT_ARCHIVED)
    ]
    assert {(act.actor.key_id, act.actor.user, act.actor.email, act.actor.address) for act in office.acts} == {
        ("owner", "user-owner", "owner@example.org", "127.0.0.1")
    }


async def test_lists_are_read_page_by_page(office: Office) -> None:
    made = [(await office.sdk.projects.create(name=f"Project {number}")).id for number in range(4)]
    page = await office.sdk.projects.list(limit=2)
    assert [each.id for each in page.data] == ["proj_0", made[0]]
    assert (page.first_id, page.last_id, page.has_more) == ("proj_0", made[0], True)
    assert [each.id async for each in office.sdk.projects.list(limit=2)] == ["proj_0", *made]
    empty = await office.sdk.invites.list()
    assert (empty.data, empty.first_id, empty.last_id, empty.has_more) == ([], None, None, False)


async def test_people_and_their_roles(office: Office) -> None:
    users = office.sdk.users
    assert [each.role async for each in users.list(limit=3)] == ["owner", "admin", "member", "viewer"]
    assert [each.id for each in (await users.list(emails=["VIEWER@example.org"])).data] == ["user-viewer"]
    assert (await users.update("user-viewer", role="reader")).role == "member"
    assert (await users.retrieve("user-viewer")).role == "member"
    assert (await users.delete("user-viewer")).deleted
    with pytest.raises(openai.NotFoundError):
        await users.retrieve("user-viewer")
    members = await office.sdk.projects.users.list("proj_0")
    assert [each.role for each in members.data] == ["owner", "owner", "member"]
    assert (await office.sdk.projects.users.retrieve("user-admin", project_id="proj_0")).email == "admin@example.org"
    assert [(act.event, act.target) for act in office.acts] == [
        (Event.USER_UPDATED, "user-viewer"),
        (Event.USER_DELETED, "user-viewer"),
    ]


async def test_an_invitations_life(office: Office) -> None:
    invites = office.sdk.invites
    made = await invites.create(email="new@example.org", role="reader")
    assert (made.object, made.role, made.status, made.projects) == ("organization.invite", "reader", "pending", [])
    opened = await office.stage.organisation.administration.invitations.open(made.token)
    assert opened.id == made.id
    again = await invites.retrieve(made.id)
    assert not hasattr(again, "token")
    assert [each.id async for each in invites.list()] == [made.id]
    assert (await invites.delete(made.id)).deleted
    assert [each.id async for each in invites.list()] == []
    assert [(act.event, act.target) for act in office.acts] == [
        (Event.INVITE_SENT, made.id),
        (Event.INVITE_DELETED, made.id),
    ]
    assert made.token not in repr(office.acts)


async def test_nobody_gives_or_takes_more_than_he_has(office: Office) -> None:
    admin = office.client(key_of("admin")).admin.organization
    for refused in (
        admin.users.update("user-member", role="owner"),
        admin.users.delete("user-owner"),
        admin.invites.create(email="new@example.org", role="owner"),
    ):
        with pytest.raises(openai.PermissionDeniedError) as raised:
            await refused
        assert raised.value.code == "insufficient_permissions"
    assert (await admin.users.update("user-member", role="viewer")).role == "viewer"  # type: ignore[arg-type]
    with pytest.raises(openai.BadRequestError) as last:
        await office.sdk.users.delete("user-owner")
    assert last.value.code == "last_owner"
    assert [act.target for act in office.acts] == ["user-member"]


async def test_the_audit_log_is_read_by_its_own_client(office: Office) -> None:
    project = await office.sdk.projects.create(name="First")
    await office.sdk.users.update("user-viewer", role="reader")
    await office.client(key_of("operator")).admin.organization.projects.archive(project.id)
    log = office.sdk.audit_logs
    acts = [each async for each in log.list(limit=1)]
    assert [act.type for act in acts] == ["project.archived", "user.updated", "project.created"]
    assert acts[2].project_created.data.name == "First"  # type: ignore[union-attr]
    assert acts[2].actor.api_key.user.email == "owner@example.org"
    assert acts[0].actor.api_key.type == "service_account"
    assert acts[1].user_updated.changes_requested.role == "member"
    one = await log.list(event_types=["project.created", "project.archived"], actor_ids=["user-owner"])
    assert [act.id for act in one.data] == [acts[2].id]
    assert (await log.list(effective_at={"gte": 1, "lt": 2})).data == []
    assert len((await log.list(effective_at={"gt": 1}, project_ids=[project.id])).data) == 2
    before = await log.list(before=acts[2].id, limit=1)
    assert ([act.id for act in before.data], before.has_more) == ([acts[1].id], True)
