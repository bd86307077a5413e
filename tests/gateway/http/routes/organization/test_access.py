"""Authorisation and validation of the organisation API: roles, scopes, other organisations, queries and bodies."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from auth_billing.access.principal import Principal
from gateway.http.routes import organization
from tests.gateway.conftest import KEY
from tests.gateway.http.routes.organization.conftest import FOREIGN, OURS, AdminApi, key_of

ROUTES = [
    (method, str(route.path))
    for route in iter_route_contexts(organization.router.routes)
    for method in sorted(route.methods or ())
]

BODY = {
    "name": "x",
    "threshold_amount": 1,
    "currency": "USD",
    "interval": "month",
    "mode": "deny_list",
    "model_ids": ["m"],
    "model": "m",
}
"""A body that is valid for every route."""


def filled(path: str, project: str = "proj_0") -> str:
    """Return a route's path with ids filled in."""
    names = {"project_id": project, "user_id": "user-owner"}
    return "/".join(
        names.get(part[1:-1].partition(":")[0], "nothing-0") if part.startswith("{") else part
        for part in path.removeprefix("/v1/organization").split("/")
    )


@pytest.mark.parametrize("key", [KEY, key_of("viewer"), key_of("member"), key_of("left")])
async def test_only_administrators_are_authorised(admin_api: AdminApi, key: str) -> None:
    """H93."""
    admin_api.stage.accounts.added[key_of("left")] = Principal(
        "left", OURS, "salt", user="user-left", scopes=admin_api.stage.accounts.added[key_of("owner")].scopes
    )
    for method, path in ROUTES:
        response = await admin_api.request(method, filled(path), key=key, content=b"not even looked at")
        assert response.status_code == 403, path
        assert response.json()["error"]["code"] in ("missing_scope", "insufficient_permissions")
    assert admin_api.audit_entries == []


async def test_a_read_only_key_cannot_write(admin_api: AdminApi) -> None:
    for method, path in ROUTES:
        if method != "GET":
            response = await admin_api.request(method, filled(path), key=key_of("reader"), json={})
            assert (response.status_code, response.json()["error"]["code"]) == (403, "missing_scope"), path


async def test_objects_of_other_organisations_do_not_exist(admin_api: AdminApi) -> None:
    for method, path in ROUTES:
        if "{" not in path:
            continue
        body: dict[str, Any] = {"json": BODY} if method == "POST" else {}
        theirs = await admin_api.request(method, filled(path), key=FOREIGN, **body)
        nowhere = filled(path, "proj_no").replace("user-owner", "user-no")
        missing = await admin_api.request(method, nowhere, key=FOREIGN, **body)
        assert (theirs.status_code, theirs.json()) == (missing.status_code, missing.json())
        assert theirs.status_code == 404, path


OTHER_WAYS: tuple[tuple[str, str, dict[str, str], int], ...] = (
    ("GET", "/projects/proj_0/archive", {"x-http-method-override": "POST"}, 405),
    ("POST", "/users", {"x-http-method-override": "GET"}, 405),
    ("PUT", "/projects", {}, 405),
    ("GET", "/Projects", {}, 404),
    ("GET", "/projects/", {}, 404),
    ("GET", "/usage/vector_stores", {}, 404),
)


async def test_routes_have_one_method_and_one_path(admin_api: AdminApi) -> None:
    """H93."""
    for method, path, headers, status in OTHER_WAYS:
        response = await admin_api.request(method, path, headers=headers)
        assert response.status_code == status, path
    assert admin_api.audit_entries == []


QUERIES: dict[str, str | None] = {
    "/projects?limit=0": "limit",
    "/projects?limit=1000000000": "limit",
    "/projects?limit=2.0": "limit",
    "/projects?limit=٣": "limit",
    "/projects?limit=1&limit=2": "limit",
    "/projects?limit[]=1": "limit",
    "/projects?after=proj_1": "after",
    "/projects?include_archived=yes": "include_archived",
    "/projects?sort[$where]=1": "sort[$where]",
    "/projects?filter={%22$where%22:%22sleep(1000)%22}": "filter",
    "/users?emails[$regex]=(a%2B)%2B$": "emails[$regex]",
    "/users?" + "&".join(["emails=x"] * 101): "emails",
    "/users?" + "&".join(["emails=x"] * 1000): None,
    "/audit_logs?event_types[]=project.exploded": "event_types[0]",
    "/audit_logs?effective_at[ne]=1": "effective_at.ne",
    "/audit_logs?effective_at=1": "effective_at",
    "/audit_logs?effective_at[gt]=1e9": "effective_at.gt",
    "/audit_logs?after=a&before=b": "before",
}


async def test_invalid_queries_are_refused(admin_api: AdminApi) -> None:
    """H90."""
    for path, param in QUERIES.items():
        response = await admin_api.request("GET", path)
        assert response.status_code == 400, path
        assert response.json()["error"]["param"] == param, path


NO_BODIES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("/projects", {}, "name"),
    ("/projects", {"name": ""}, "name"),
    ("/projects", {"name": "a\nb"}, "name"),
    ("/projects", {"name": "x" * 101}, "name"),
    ("/projects", {"name": "x", "external_key_id": "k"}, "external_key_id"),
    ("/projects/proj_0", {"name": 1}, "name"),
    ("/users/user-viewer", {"role": "god"}, "role"),
    ("/users/user-viewer", {"role_id": "role-1"}, "role_id"),
    ("/invites", {"email": "a@b\r\nBcc: c", "role": "reader"}, "email"),
    ("/invites", {"email": "a@example.org", "role": {"$ne": 1}}, "role"),
    ("/invites", {"email": "a@example.org", "role": "reader", "projects": [{"id": "proj_0"}]}, "projects"),
)


async def test_invalid_bodies_are_refused(admin_api: AdminApi) -> None:
    for path, body, param in NO_BODIES:
        response = await admin_api.request("POST", path, json=body)
        assert response.status_code == 400, body
        assert response.json()["error"]["param"] == param, body
    assert admin_api.audit_entries == []


async def test_a_missing_audit_entry_is_reported_to_the_client(admin_api: AdminApi) -> None:
    admin_api.stage.organisation.audit_log.absence.failures = 1
    response = await admin_api.request("POST", "/projects", json={"name": "x"})
    assert response.status_code == 503
