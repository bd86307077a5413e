"""Creates, lists, renames, rotates and revokes API keys of an organisation's projects, and its own admin keys.

Each change that ends a key is published to all gateways, which then confirm it with the store (`key_cache.py`); a
gateway that misses the message does so within seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

from auth_billing.access.model_access import checked_models
from auth_billing.access.principal import Principal
from auth_billing.access.roles import Actor, Role
from auth_billing.access.scopes import ADMIN_SCOPES, PROJECT_SCOPES
from auth_billing.errors import NoSuchRecord, NotPermitted, PeopleError, UnacceptableValue
from auth_billing.keys.key_issuance import IssuedKey, KeySpec, issue
from auth_billing.keys.key_records import ApiKeyRecord, ApiKeyStore
from auth_billing.money.budgets import Budgets
from auth_billing.people.input_normalisation import checked_name
from auth_billing.people.members import current_actor
from auth_billing.people.organisation_records import OrganisationStore
from auth_billing.people.people_records import MembershipStore
from auth_billing.rate_limits.limit_registry import inherit_limits
from auth_billing.rate_limits.ports import LimitStore
from router.messages import KeySet

ADMIN_KEYS = ""
"""Project id of the organisation's own keys, which belong to no project."""
MAX_OVERLAP = 30 * 86400.0
"""Seconds that a rotated key may stay valid."""


@dataclass(eq=False, repr=False)
class ApiKeys:
    """Manages the API keys of organisations.

    Args:
        keys, accounts, memberships: the stores.
        budgets: passes a rotated key's budget on to its successor.
        limits: the rate limits of keys, which a successor inherits too.
        pepper: the installation's secret, as for `Authenticator`.
        announce: publishes changed keys to all gateways; never raises.
        clock: Unix seconds.
    """

    keys: ApiKeyStore
    accounts: OrganisationStore
    memberships: MembershipStore
    budgets: Budgets
    limits: LimitStore
    pepper: bytes
    announce: Callable[[KeySet], None]
    _: KW_ONLY
    clock: Callable[[], float] = time.time

    async def create(
        self, actor: Actor, project: str, spec: KeySpec, *, by: Principal | None = None, owner: str | None = None
    ) -> IssuedKey:
        """Create an API key of a project, or an admin key (project `ADMIN_KEYS`); return its text and record.

        The key belongs to the actor's user, if there is one.

        Args:
            actor: at least a member for a project's key, an administrator for an admin key.
            project: id of a project of the actor's organisation.
            spec: properties of the key.
            by: the API key that makes the request, if one does: the new key gets no scope or model that it lacks.
            owner: id of a service account that the key belongs to, instead of the actor's user.

        Raises:
            NotPermitted: the key would have more rights than the actor.
            NoSuchRecord: no such project, or it is archived.
            UnacceptableValue: an invalid name, model name or expiry.
        """
        actor.require(Role.MEMBER if project else Role.ADMIN)
        _require_rights(project, spec, by)
        return await self._issue(actor, project, self._checked(spec), actor.user if owner is None else owner)

    async def all(self, actor: Actor, project: str) -> list[ApiKeyRecord]:
        """Return the unrevoked API keys of a project (or `ADMIN_KEYS`), newest first.

        Administrators get all, other users their own.
        """
        if project:
            await self._require_project(actor.organisation, project)
        keys = await self.keys.unrevoked(actor.organisation, project)
        return [key for key in keys if _may_manage(actor, key)]

    async def find(self, actor: Actor, project: str, key_id: str) -> ApiKeyRecord:
        """Return the unrevoked API key with this id, of a project or (`ADMIN_KEYS`) of the organisation itself.

        Raises:
            NoSuchRecord: the project has no such key, or the actor may not see it.
        """
        record = await self.keys.find(key_id)
        if (
            record is None
            or (record.organisation, record.project) != (actor.organisation, project)
            or record.revoked is not None
            or not _may_manage(actor, record)
        ):
            raise NoSuchRecord(f"no key {key_id} in {project or actor.organisation}")
        return record

    async def rename(self, actor: Actor, project: str, key_id: str, name: str) -> ApiKeyRecord:
        """Change the name of an unrevoked API key and return the changed record.

        Raises:
            NoSuchRecord: the project has no such key, or the actor may not see it.
            UnacceptableValue: the name is invalid.
        """
        record = await self.find(actor, project, key_id)
        named = replace(record, name=checked_name(name))
        await self.keys.rename(key_id, named.name)
        return named

    async def rotate(self, actor: Actor, project: str, key_id: str, *, overlap: float) -> IssuedKey:
        """Create and return a successor of an API key with the same rights and lifetime.

        The old key stays valid for `overlap` seconds. The successor inherits the old key's rate limits, and its budget
        with this month's use.

        Raises:
            NoSuchRecord: there is no such key, or it has expired.
            NotPermitted: the key belongs to another user or to none. (Revoke it and create a new one instead.)
            UnacceptableValue: the overlap is negative or more than 30 days.
        """
        if not 0 <= overlap <= MAX_OVERLAP:
            raise UnacceptableValue("overlap", f"An overlap is 0 to {MAX_OVERLAP:.0f} seconds.")
        old, now = await self.find(actor, project, key_id), self.clock()
        if not old.is_live(now):
            raise NoSuchRecord(f"key {key_id} has expired")
        if old.user != actor.user:
            raise NotPermitted("another owner's key")
        lifetime = None if old.expires is None else now + (old.expires - old.created)
        spec = KeySpec(old.name, old.scopes, old.models, lifetime)
        issued = await self._issue(actor, project, spec, old.user)
        await self.budgets.inherit(actor.organisation, key_id, issued.record.key_id)  # before the key is handed out
        await inherit_limits(self.limits, key_id, issued.record.key_id)
        try:
            await self.keys.expire(key_id, now + overlap)
        finally:  # also when the outcome is unknown: gateways look the key up again
            self.announce(KeySet(key=key_id))
        return issued

    async def revoke(self, actor: Actor, project: str, key_id: str) -> ApiKeyRecord:
        """Revoke one API key permanently, publish that to all gateways, which then refuse it; return its record.

        Raises:
            NoSuchRecord: the project has no valid key with this id, or the actor may not see it.
        """
        record = await self.find(actor, project, key_id)
        await self.revoke_all(KeySet(key=key_id))
        return record

    async def revoke_all(self, keys: KeySet) -> int:
        """Revoke all API keys that `keys` selects, and publish that to all gateways; return how many were revoked.

        The caller checks permissions.
        """
        try:
            return await self.keys.revoke(keys, self.clock())
        finally:
            self.announce(keys)

    async def _issue(self, actor: Actor, project: str, spec: KeySpec, user: str) -> IssuedKey:
        """Create a key; revoke it if meanwhile its project was archived, or the actor removed or given a lower role."""
        organisation, now = actor.organisation, self.clock()
        if project:
            await self._require_project(organisation, project)
        issued = await issue(
            self.keys, self.pepper, organisation=organisation, project=project, spec=spec, user=user, now=now
        )
        try:
            if project:
                await self._require_project(organisation, project)
            (await current_actor(self.memberships, actor)).require(Role.MEMBER if project else Role.ADMIN)
        except PeopleError:
            await self.revoke_all(KeySet(key=issued.record.key_id))
            raise
        return issued

    async def _require_project(self, organisation: str, project: str) -> None:
        found = await self.accounts.find_project(organisation, project)
        if found is None or found.archived is not None:
            raise NoSuchRecord(f"no project {project} of {organisation} is in use")

    def _checked(self, spec: KeySpec) -> KeySpec:
        if spec.expires is not None and spec.expires <= self.clock():
            raise UnacceptableValue("expires_at", "A key expires in the future.")
        checked_models(spec.models or (), "models")
        return replace(spec, name=checked_name(spec.name))


def _require_rights(project: str, spec: KeySpec, by: Principal | None) -> None:
    """Check that a new key has no scope or model that its kind, or the key that creates it (`by`), lacks.

    Raises:
        NotPermitted: it would have more.
    """
    of_its_kind = PROJECT_SCOPES if project else ADMIN_SCOPES
    possible = of_its_kind if by is None or project else of_its_kind & by.scopes
    if not (of_its_kind if spec.scopes is None else spec.scopes) <= possible:
        raise NotPermitted("more scopes than may be given")
    if by is not None and not by.models.covers(spec.models):
        raise NotPermitted("more models than may be given")


def _may_manage(actor: Actor, record: ApiKeyRecord) -> bool:
    return actor.role.rank >= Role.ADMIN.rank or (actor.user != "" and record.user == actor.user)
