"""Pagination of the organisation API's lists."""

from __future__ import annotations

from tests.gateway.http.routes.organization.conftest import AdminApi


async def test_lists_are_paginated(admin_api: AdminApi) -> None:
    made = [(await admin_api.sdk.projects.create(name=f"Project {number}")).id for number in range(4)]
    page = await admin_api.sdk.projects.list(limit=2)
    assert [each.id for each in page.data] == ["proj_0", made[0]]
    assert (page.first_id, page.last_id, page.has_more) == ("proj_0", made[0], True)
    assert [each.id async for each in admin_api.sdk.projects.list(limit=2)] == ["proj_0", *made]
    empty = await admin_api.sdk.invites.list()
    assert (empty.data, empty.first_id, empty.last_id, empty.has_more) == ([], None, None, False)
