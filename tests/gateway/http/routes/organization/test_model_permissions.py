"""Model permissions of projects, roles and users, through the API; each change is in the audit log."""

from __future__ import annotations

import pytest

from auth_billing.audit_log import Event
from tests.gateway.http.routes.organization.conftest import FOREIGN, OURS, AdminApi, key_of

ONLY = {"mode": "allow_list", "model_ids": ["b", "a"]}
OF_MEMBER = "/users/user-member/model_permissions"


@pytest.mark.parametrize(
    ("path", "kind", "target", "project"),
    [
        ("/projects/proj_0/model_permissions", "project", "proj_0", "proj_0"),
        ("/roles/member/model_permissions", "role", "member", ""),
        (OF_MEMBER, "user", "user-member", ""),
    ],
)
async def test_permissions_are_set_read_and_deleted(
    admin_api: AdminApi, path: str, kind: str, target: str, project: str
) -> None:
    name = f"{kind}.model_permissions"
    everything = {"object": name, "mode": "deny_list", "model_ids": []}
    assert (await admin_api.request("GET", path)).json() == everything
    set_to = {"object": name, "mode": "allow_list", "model_ids": ["a", "b"]}
    assert (await admin_api.request("POST", path, json=ONLY, key=key_of("admin"))).json() == set_to
    assert (await admin_api.request("GET", path)).json() == set_to
    assert (await admin_api.request("DELETE", path)).json() == {"object": f"{name}.deleted", "deleted": True}
    assert (await admin_api.request("GET", path)).json() == everything
    entries = [(act.event, act.target, act.project, dict(act.details)) for act in admin_api.audit_entries]
    assert entries == [
        (
            Event.MODEL_PERMISSIONS_UPDATED,
            target,
            project,
            {"kind": kind, "mode": "allow_list", "model_ids": ["a", "b"]},
        ),
        (Event.MODEL_PERMISSIONS_DELETED, target, project, {"kind": kind}),
    ]


async def test_a_deny_list_without_models_is_logged_as_a_removal(admin_api: AdminApi) -> None:
    assert (await admin_api.request("POST", OF_MEMBER, json={"mode": "deny_list", "model_ids": []})).status_code == 200
    assert [act.event for act in admin_api.audit_entries] == [Event.MODEL_PERMISSIONS_DELETED]


async def test_the_stock_sdk_sets_a_projects_permissions(admin_api: AdminApi) -> None:
    permissions = admin_api.sdk.projects.model_permissions
    changed = await permissions.update("proj_0", mode="deny_list", model_ids=["a"])
    assert (changed.object, changed.mode, changed.model_ids) == ("project.model_permissions", "deny_list", ["a"])
    assert (await permissions.retrieve("proj_0")).model_ids == ["a"]
    assert (await permissions.delete("proj_0")).deleted


@pytest.mark.parametrize(
    ("key", "path", "status"),
    [
        (key_of("admin"), "/roles/admin/model_permissions", 403),
        (key_of("admin"), "/users/user-admin/model_permissions", 403),
        (key_of("owner"), "/roles/owner/model_permissions", 400),
        (key_of("operator"), "/users/user-owner/model_permissions", 400),
        (key_of("member"), OF_MEMBER, 403),
        (key_of("reader"), OF_MEMBER, 403),
        (FOREIGN, OF_MEMBER, 404),
        (FOREIGN, "/projects/proj_0/model_permissions", 404),
        (key_of("owner"), "/projects/proj_1/model_permissions", 404),
        (key_of("owner"), "/roles/reader/model_permissions", 404),
    ],
)
async def test_refused_changes_change_nothing(admin_api: AdminApi, key: str, path: str, status: int) -> None:
    answer = await admin_api.request("POST", path, json=ONLY, key=key)
    assert answer.status_code == status, answer.text
    assert not admin_api.audit_entries
    assert not await admin_api.stage.organisation.model_policies.all(OURS)


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "allow_list"},
        {"mode": "all", "model_ids": []},
        {"mode": "deny_list", "model_ids": [""]},
        {"mode": "deny_list", "model_ids": ["\n"]},
        {"mode": "deny_list", "model_ids": ["m"] * 101},
    ],
)
async def test_invalid_permissions_are_refused(admin_api: AdminApi, body: object) -> None:
    assert (await admin_api.request("POST", OF_MEMBER, json=body)).status_code == 400
