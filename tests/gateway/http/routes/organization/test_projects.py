"""Projects, through the stock SDK's admin client; each change is in the audit log."""

from __future__ import annotations

from auth_billing.audit_log import Event
from tests.gateway.http.routes.organization.conftest import AdminApi


async def test_projects_are_created_renamed_and_archived(admin_api: AdminApi) -> None:
    projects = admin_api.sdk.projects
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
    assert [(act.event, act.target, act.project) for act in admin_api.audit_entries] == [
        (event, made.id, made.id) for event in (Event.PROJECT_CREATED, Event.PROJECT_UPDATED, Event.PROJECT_ARCHIVED)
    ]
    assert {
        (act.actor.key_id, act.actor.user, act.actor.email, act.actor.address) for act in admin_api.audit_entries
    } == {("owner", "user-owner", "owner@example.org", "127.0.0.1")}
