"""The audit log, through the stock SDK's admin client."""

from __future__ import annotations

from tests.gateway.http.routes.organization.conftest import AdminApi, key_of


async def test_the_audit_log_is_queried(admin_api: AdminApi) -> None:
    project = await admin_api.sdk.projects.create(name="First")
    await admin_api.sdk.users.update("user-viewer", role="reader")
    await admin_api.client(key_of("operator")).admin.organization.projects.archive(project.id)
    log = admin_api.sdk.audit_logs
    acts = [each async for each in log.list(limit=1)]
    assert [act.type for act in acts] == ["project.archived", "user.updated", "project.created"]
    assert acts[2].project_created.data.name == "First"
    assert acts[2].actor.api_key.user.email == "owner@example.org"
    assert acts[0].actor.api_key.type == "service_account"
    assert acts[1].user_updated.changes_requested.role == "member"
    one = await log.list(event_types=["project.created", "project.archived"], actor_ids=["user-owner"])
    assert [act.id for act in one.data] == [acts[2].id]
    assert (await log.list(effective_at={"gte": 1, "lt": 2})).data == []
    assert len((await log.list(effective_at={"gt": 1}, project_ids=[project.id])).data) == 2
    before = await log.list(before=acts[2].id, limit=1)
    assert ([act.id for act in before.data], before.has_more) == ([acts[1].id], True)
