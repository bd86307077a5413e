"""Pagination of the organisation API's lists."""

from __future__ import annotations

from tests.gateway.http.routes.organization.conftest import Office


async def test_lists_are_paginated(office: Office) -> None:
    made = [(await office.sdk.projects.create(name=f"Project {number}")).id for number in range(4)]
    page = await office.sdk.projects.list(limit=2)
    assert [each.id for each in page.data] == ["proj_0", made[0]]
    assert (page.first_id, page.last_id, page.has_more) == ("proj_0", made[0], True)
    assert [each.id async for each in office.sdk.projects.list(limit=2)] == ["proj_0", *made]
    empty = await office.sdk.invites.list()
    assert (empty.data, empty.first_id, empty.last_id, empty.has_more) == ([], None, None, False)
