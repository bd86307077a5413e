"""Invitations, through the stock SDK's admin client."""

from __future__ import annotations

from auth_billing.audit_log import Event
from tests.gateway.http.routes.organization.conftest import AdminApi


async def test_invitations_are_created_listed_and_revoked(admin_api: AdminApi) -> None:
    invites = admin_api.sdk.invites
    made = await invites.create(email="new@example.org", role="reader")
    assert (made.object, made.role, made.status, made.projects) == ("organization.invite", "reader", "pending", [])
    opened = await admin_api.stage.organisation.administration.invitations.open(made.token)
    assert opened.id == made.id
    again = await invites.retrieve(made.id)
    assert not hasattr(again, "token")
    assert [each.id async for each in invites.list()] == [made.id]
    assert (await invites.delete(made.id)).deleted
    assert [each.id async for each in invites.list()] == []
    assert [(act.event, act.target) for act in admin_api.audit_entries] == [
        (Event.INVITE_SENT, made.id),
        (Event.INVITE_DELETED, made.id),
    ]
    assert made.token not in repr(admin_api.audit_entries)
