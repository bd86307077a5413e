"""Members and roles, through the stock SDK's admin client."""

from __future__ import annotations

import openai
import pytest

from auth_billing.audit_log import Event
from tests.gateway.http.routes.organization.conftest import AdminApi, key_of


async def test_members_are_listed_changed_and_removed(admin_api: AdminApi) -> None:
    users = admin_api.sdk.users
    assert [each.role async for each in users.list(limit=3)] == ["owner", "admin", "member", "viewer"]
    assert [each.id for each in (await users.list(emails=["VIEWER@example.org"])).data] == ["user-viewer"]
    assert (await users.update("user-viewer", role="reader")).role == "member"
    assert (await users.retrieve("user-viewer")).role == "member"
    assert (await users.delete("user-viewer")).deleted
    with pytest.raises(openai.NotFoundError):
        await users.retrieve("user-viewer")
    members = await admin_api.sdk.projects.users.list("proj_0")
    assert [each.role for each in members.data] == ["owner", "owner", "member"]
    assert (await admin_api.sdk.projects.users.retrieve("user-admin", project_id="proj_0")).email == "admin@example.org"
    assert [(act.event, act.target) for act in admin_api.audit_entries] == [
        (Event.USER_UPDATED, "user-viewer"),
        (Event.USER_DELETED, "user-viewer"),
    ]


async def test_an_administrator_who_leaves_is_recorded(admin_api: AdminApi) -> None:
    left = await admin_api.request("DELETE", "/users/user-admin", key=key_of("admin"))
    assert (left.status_code, left.json()["deleted"]) == (200, True)
    (entry,) = admin_api.audit_entries
    assert (entry.event, entry.target, entry.actor.email) == (Event.USER_DELETED, "user-admin", "admin@example.org")
    assert (await admin_api.request("GET", "/users", key=key_of("admin"))).status_code == 403


async def test_members_cannot_change_roles_above_their_own(admin_api: AdminApi) -> None:
    admin = admin_api.client(key_of("admin")).admin.organization
    for refused in (
        admin.users.update("user-member", role="owner"),
        admin.users.delete("user-owner"),
        admin.invites.create(email="new@example.org", role="owner"),
    ):
        with pytest.raises(openai.PermissionDeniedError) as raised:
            await refused
        assert raised.value.code == "insufficient_permissions"
    assert (await admin.users.update("user-member", role="viewer")).role == "viewer"
    with pytest.raises(openai.BadRequestError) as last:
        await admin_api.sdk.users.delete("user-owner")
    assert last.value.code == "last_owner"
    assert [act.target for act in admin_api.audit_entries] == ["user-member"]
