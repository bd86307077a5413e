"""Writes audit log entries about a person's account to the logs of all organisations that the person is a member of."""

from __future__ import annotations

from auth_billing.audit_log import AuditActor, AuditLog, Detail, Event
from auth_billing.people.people_records import MembershipStore, User


async def record_account_event(
    audit_log: AuditLog,
    memberships: MembershipStore,
    user: User,
    event: Event,
    actor: AuditActor,
    **details: Detail,
) -> None:
    """Append an entry about a user's account to the audit log of each organisation of the user.

    Raises:
        StoreUnavailable: the action is done, but entries may be missing; report that to the caller.
    """
    for membership in await memberships.of_user(user.id):
        await audit_log.record(membership.organisation, event, user.id, actor, details={"email": user.email, **details})
