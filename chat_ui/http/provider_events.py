"""Checks sessions with the identity provider, and writes audit entries of what the provider's groups change."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request

from auth_billing.people.oidc.group_roles import MembershipChange
from auth_billing.people.people_records import User
from auth_billing.people.sessions import BrowserSession
from chat_ui.services import audit_actor, services_of


async def check_with_provider(request: Request, session: BrowserSession) -> None:
    """Have the identity provider confirm a session that began there, if a check is due; log changed memberships.

    Called when a session's tokens are renewed.

    Raises:
        InvalidSession: the session has ended.
    """
    services = services_of(request)
    if services.oidc is None or not session.by_provider:
        return
    changes = await services.oidc.check(session)
    await record_changes(request, session.user, changes)
    if any(each.organisation == session.organisation for each in changes):
        await services.access.sessions.require_active(session.id)


async def record_changes(request: Request, user: User, changes: Iterable[MembershipChange]) -> None:
    """Record each membership of a user changed by the provider's groups in its organisation's audit log."""
    actor = audit_actor(request, user)
    for each in changes:
        details = {"role": each.role.value, "email": user.email, "source": "identity provider"}
        await services_of(request).audit.record(each.organisation, each.event, user.id, actor, details=details)
