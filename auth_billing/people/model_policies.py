"""Reads and changes model policies, by which administrators restrict the models of projects, roles and members.

A request may use a model if its API key, its project, its user's role and its user's own policy permit it. Owners are
never restricted by role or as persons, and only owners restrict administrators: no one can widen their own access. A
change applies to new requests at once at gateways that get the message, and within seconds at the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from auth_billing.access.model_access import UNRESTRICTED, ModelAccess, ModelPolicy, checked_models
from auth_billing.access.roles import Actor, Role
from auth_billing.audit_log import Detail, Event
from auth_billing.errors import NoSuchRecord, UnacceptableValue
from auth_billing.people.organisation_records import OrganisationStore
from auth_billing.people.people_records import MembershipStore
from router.messages import KeySet

RESTRICTABLE = tuple(role for role in Role if role is not Role.OWNER)
"""The roles that a policy may restrict."""


@dataclass(frozen=True)
class PolicySubject:
    """The subject of a model policy in an organisation: a project or a member (`id`), or a role (its name)."""

    kind: Literal["project", "role", "user"]
    id: str


class ModelPolicyStore(Protocol):
    """Store of model policies. Each method raises `StoreUnavailable` when the store does not answer in time."""

    async def find(self, organisation: str, subjects: Sequence[PolicySubject]) -> dict[PolicySubject, ModelPolicy]:
        """Return the stored model policies of these subjects, by subject; one without a policy is left out."""
        ...

    async def all(self, organisation: str) -> dict[PolicySubject, ModelPolicy]:
        """Return all stored model policies of an organisation, by subject (a project, role or member)."""
        ...

    async def put(self, organisation: str, subject: PolicySubject, policy: ModelPolicy) -> None:
        """Store the model policy of one subject of an organisation durably, in place of the earlier one."""
        ...

    async def remove(self, organisation: str, subject: PolicySubject) -> None:
        """Delete the model policy of one subject of an organisation; no effect if there is none."""
        ...


@dataclass(eq=False, repr=False)
class ModelPolicies:
    """Reads and changes the model policies of organisations.

    Args:
        store, accounts, memberships: the stores.
        announce: publishes the keys that a change concerns to all gateways; never raises.
    """

    store: ModelPolicyStore
    accounts: OrganisationStore
    memberships: MembershipStore
    announce: Callable[[KeySet], None]

    async def access(self, organisation: str, project: str, user: str, role: Role | None = None) -> ModelAccess:
        """Return which models requests may use by the policies of the project, the user and the user's role.

        `user`: id of a user or service account, empty for neither; `role`: the user's role if the caller has just
        looked it up.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        of_project, of_user = PolicySubject("project", project), PolicySubject("user", user)
        personal = [of_user, *(PolicySubject("role", each) for each in RESTRICTABLE)] if user else []
        found = await self.store.find(organisation, [of_project, *personal])
        applying = [of_project]
        if any(subject in found for subject in personal):
            current = role or await self.role(organisation, user)
            if current is not Role.OWNER:  # also of a removed member whose keys are not revoked yet
                applying += [*([] if current is None else [PolicySubject("role", current)]), of_user]
        return ModelAccess(tuple(found[subject] for subject in applying if subject in found))

    async def all(self, organisation: str) -> Mapping[PolicySubject, ModelPolicy]:
        """Return all model policies of an organisation, by subject; a subject that is not there is unrestricted."""
        return await self.store.all(organisation)

    async def find(self, organisation: str, subject: PolicySubject) -> ModelPolicy:
        """Return the model policy of a project, role or member of an organisation; `UNRESTRICTED` if none is set.

        Raises:
            NoSuchRecord: the organisation has no such project or member, or there is no such role.
        """
        await self._role_of(organisation, subject)
        return (await self.store.find(organisation, [subject])).get(subject, UNRESTRICTED)

    async def set(self, actor: Actor, subject: PolicySubject, policy: ModelPolicy) -> None:
        """Store the model policy of a project, role or member of the actor's organisation.

        `UNRESTRICTED` removes it. Publishes to gateways which cached keys it concerns.

        Raises:
            NotPermitted: the actor is no administrator, or no owner and the subject is the role of administrators, or
                an administrator.
            NoSuchRecord: the organisation has no such project or member, or there is no such role.
            UnacceptableValue: the subject is an owner or the owners' role, or a model's name is invalid.
        """
        actor.require(Role.ADMIN)
        role = await self._role_of(actor.organisation, subject)
        if role is Role.ADMIN:
            actor.require_limits_of(role)
        if role is Role.OWNER and policy != UNRESTRICTED:
            raise UnacceptableValue(subject.kind, "Owners may use every model: they can't be restricted.")
        checked_models(policy.models, "model_ids")
        try:
            if policy == UNRESTRICTED:
                await self.store.remove(actor.organisation, subject)
            else:
                await self.store.put(actor.organisation, subject, policy)
        finally:  # also when the outcome is unknown: gateways read the policies again
            self.announce(_keys(actor.organisation, subject))

    async def role(self, organisation: str, user: str) -> Role | None:
        """Return the role of a user in an organisation; `None` if the user is no member."""
        membership = await self.memberships.find(organisation, user)
        return None if membership is None else membership.role

    async def _role_of(self, organisation: str, subject: PolicySubject) -> Role | None:
        """Return the role that a policy on `subject` restricts; `None` for a project, which must not be archived."""
        if subject.kind == "project":
            project = await self.accounts.find_project(organisation, subject.id)
            role, exists = None, project is not None and project.archived is None
        elif subject.kind == "role":
            role = next((each for each in Role if each == subject.id), None)
            exists = role is not None
        else:
            role = await self.role(organisation, subject.id)
            exists = role is not None
        if not exists:
            raise NoSuchRecord(f"no {subject.kind} {subject.id} in {organisation}")
        return role


def audit_entry_of(subject: PolicySubject, policy: ModelPolicy) -> tuple[Event, str, dict[str, Detail]]:
    """Return the event, project id (empty: none) and details that the audit log gets for a changed model policy.

    `UNRESTRICTED` is logged as the removal of the policy. Nothing is written here.
    """
    project = subject.id if subject.kind == "project" else ""
    if policy == UNRESTRICTED:
        return Event.MODEL_PERMISSIONS_DELETED, project, {"kind": subject.kind}
    details: dict[str, Detail] = {
        "kind": subject.kind,
        "mode": policy.mode.value,
        "model_ids": sorted(policy.models),
    }
    return Event.MODEL_PERMISSIONS_UPDATED, project, details


def _keys(organisation: str, subject: PolicySubject) -> KeySet:
    """Return the API keys whose access a policy on `subject` changes."""
    project = subject.id if subject.kind == "project" else ""
    return KeySet(organisation=organisation, project=project, user=subject.id if subject.kind == "user" else "")
