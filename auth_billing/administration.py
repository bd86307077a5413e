"""Bundles the services that the administration APIs call, and checks that their caller administers the organisation."""

from __future__ import annotations

from dataclasses import dataclass

from auth_billing.access.principal import Principal
from auth_billing.access.roles import Actor, Role
from auth_billing.audit_log import AuditLog
from auth_billing.document_audit import DocumentAudit
from auth_billing.installation import Installation
from auth_billing.keys.key_management import ApiKeys
from auth_billing.keys.service_accounts import ServiceAccounts
from auth_billing.money.budgets import Budgets
from auth_billing.money.usage_reports import UsageReports
from auth_billing.people.invitations import Invitations
from auth_billing.people.members import Members, current_actor
from auth_billing.people.model_policies import ModelPolicies
from auth_billing.people.moderation_policies import ModerationPolicies
from auth_billing.people.projects import Projects


@dataclass(frozen=True)
class Administration:
    """Services that administer the organisations of one installation, and the permission check of their callers."""

    projects: Projects
    members: Members
    invitations: Invitations
    model_policies: ModelPolicies
    moderation_policies: ModerationPolicies
    keys: ApiKeys
    service_accounts: ServiceAccounts
    budgets: Budgets
    audit_log: AuditLog
    document_audit: DocumentAudit
    usage: UsageReports
    installation: Installation

    async def actor(self, principal: Principal) -> Actor:
        """Return the caller of an administration request as an actor with its current role.

        A user's key has at most the user's current role; a key without a user was made by the operator and has all
        rights.

        Raises:
            NotPermitted: the caller is not an administrator (any more).
        """
        actor = await current_actor(self.members.memberships, Actor(principal.tenant, principal.user, Role.OWNER))
        actor.require(Role.ADMIN)
        return actor
