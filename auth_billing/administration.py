"""All that an administrator's requests stand on, in one place, and who may make them."""

from __future__ import annotations

from dataclasses import dataclass

from auth_billing.audit_log import AuditLog
from auth_billing.errors import NoSuchRecord, NotPermitted
from auth_billing.keys.key_management import ApiKeys
from auth_billing.keys.service_accounts import ServiceAccounts
from auth_billing.money.budgets import Budgets
from auth_billing.money.usage_reports import UsageReports
from auth_billing.people.directory import People
from auth_billing.people.invitations import Invitations
from auth_billing.people.projects import Projects
from auth_billing.people.roles import Actor, Role
from auth_billing.service import Principal


@dataclass(frozen=True)
class Administration:
    """The parts."""

    projects: Projects
    people: People
    invitations: Invitations
    keys: ApiKeys
    service_accounts: ServiceAccounts
    budgets: Budgets
    audit_log: AuditLog
    usage: UsageReports

    async def actor(self, principal: Principal) -> Actor:
        """Who `principal` is to the organisation, if he may administer it.

        A person's key can do no more than the person can by now; a key of nobody's was made by the operator.

        Raises:
            NotPermitted: its owner is no administrator (any more).
        """
        actor = Actor(principal.tenant, principal.user, await self._role(principal))
        actor.require(Role.ADMIN)
        return actor

    async def _role(self, principal: Principal) -> Role:
        if not principal.user:
            return Role.OWNER
        try:
            return (await self.people.member(principal.tenant, principal.user)).role
        except NoSuchRecord as error:
            raise NotPermitted("the owner of the key has left") from error
