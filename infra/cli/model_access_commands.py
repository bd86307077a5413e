"""Logic of the command `headrace model-access`: reads and changes an organisation's model policies, for operators.

No broker is used: gateways notice a change within seconds (`auth_billing/keys/key_cache.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auth_billing.access.model_access import ModelPolicy
from auth_billing.access.roles import Actor, Role
from auth_billing.audit_log import AuditLog
from auth_billing.people.model_policies import PolicySubject, audit_entry_of
from auth_billing.people.projects import Projects
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.users import MongoUserStore
from infra.accounts.account_services import AccountServices


@dataclass(frozen=True)
class ModelAccessCommands:
    """Reads and changes model policies, with an owner's rights. Every method raises `StoreUnavailable` if it fails."""

    access: AccountServices

    async def all(self, organisation: str) -> Mapping[PolicySubject, ModelPolicy]:
        """Return the model policies of an organisation by subject; a subject without one may use every model.

        Raises:
            NoSuchRecord: there is no such organisation.
        """
        await Projects(MongoOrganisationStore(self.access.connection)).organisation(organisation)
        return await self.access.model_policies().all(organisation)

    async def set(self, organisation: str, subject: PolicySubject, policy: ModelPolicy) -> None:
        """Set the model policy of one project, role or member (id or e-mail address), and log it for audits.

        Raises:
            NoSuchRecord: the organisation has no such project or member, or there is no such role.
            UnacceptableValue: the subject is an owner or the owners' role, or a model's name is invalid.
        """
        if subject.kind == "user" and "@" in subject.id:
            user = await MongoUserStore(self.access.connection).find_by_email(subject.id)
            subject = subject if user is None else PolicySubject("user", user.id)
        await self.access.model_policies().set(Actor(organisation, "", Role.OWNER), subject, policy)
        event, project, details = audit_entry_of(subject, policy)
        audit_log = AuditLog(MongoAuditLogStore(self.access.connection))
        await audit_log.record(organisation, event, subject.id, project=project, details=details)
