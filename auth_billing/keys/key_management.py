"""Who may make, see, change and end API keys: an organisation's projects have keys, and it has admin keys of its own.

Whatever ends a key is announced, so that every gateway asks the store about it again at once (`key_cache.py`); a
gateway that does not hear it does so within seconds. Knows no HTTP and no queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from auth_billing.errors import NoSuchRecord, NotPermitted, UnacceptableValue
from auth_billing.keys.issuing import IssuedKey, KeyWish, issue
from auth_billing.keys.scopes import ADMIN_SCOPES, PROJECT_SCOPES
from auth_billing.people.given_text import checked_name
from auth_billing.people.roles import Actor, Role
from auth_billing.records import AccountStore, ApiKeyRecord, ApiKeyStore
from auth_billing.service import Principal
from router.messages import KeySet

ADMIN_KEYS = ""
"""In the place of a project: the organisation's own keys."""
MOST_MODELS = 100
LONGEST_MODEL_NAME = 200
LONGEST_OVERLAP = 30 * 86400.0
"""Seconds for which a key that is being replaced may go on."""


class KeyBudgets(Protocol):
    """Where keys have budgets."""

    async def inherit(self, organisation: str, key: str, heir: str) -> None:
        """Give the key that takes another's place its budget. Raises `StoreUnavailable`."""
        ...


class ApiKeys:
    """The API keys of organisations.

    Args:
        keys, accounts: where they are stored.
        budgets: what a new key inherits from the one whose place it takes.
        pepper: the installation's secret, as for `AuthBilling`.
        announce: tells every gateway that keys have changed; never fails.
        clock: Unix seconds.
    """

    def __init__(
        self,
        keys: ApiKeyStore,
        accounts: AccountStore,
        budgets: KeyBudgets,
        pepper: bytes,
        announce: Callable[[KeySet], None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._accounts = accounts
        self._budgets = budgets
        self._pepper = pepper
        self._announce = announce
        self._clock = clock

    async def create(
        self, actor: Actor, project: str, wish: KeyWish, *, by: Principal | None = None, owner: str | None = None
    ) -> IssuedKey:
        """A new key of a project, or an admin key (`ADMIN_KEYS`). It is the actor's, or nobody's if he is nobody.

        Args:
            actor: a member for a project's key, an administrator for an admin key.
            project: of the actor's organisation.
            wish: what it shall be.
            by: the key that the actor acts by, if not signed in: no new key has more rights or models than it gives.
            owner: a service account of the project, whose it is instead of the actor's.

        Raises:
            NotPermitted: it would have more rights than the actor has.
            NoSuchRecord: no such project, or it is archived.
            UnacceptableValue: a name, a model's name or a time that can't be.
        """
        actor.require(Role.MEMBER if project else Role.ADMIN)
        _require_rights(project, wish, by)
        issued = await self._issue(
            actor.organisation, project, self._checked(wish), actor.user if owner is None else owner
        )
        if project:
            await self._end_if_archived(issued.record)
        return issued

    async def all(self, actor: Actor, project: str) -> list[ApiKeyRecord]:
        """The keys that are not revoked, newest first: an administrator's view is of all, anybody else's of his own."""
        if project:
            await self._require_project(actor.organisation, project)
        keys = await self._keys.unrevoked(actor.organisation, project)
        return [key for key in keys if _may_manage(actor, key)]

    async def find(self, actor: Actor, project: str, key_id: str) -> ApiKeyRecord:
        """One of them.

        Raises:
            NoSuchRecord: there is none, or it is not for the actor to see.
        """
        record = await self._keys.find(key_id)
        if (
            record is None
            or (record.organisation, record.project) != (actor.organisation, project)
            or record.revoked is not None
            or not _may_manage(actor, record)
        ):
            raise NoSuchRecord(f"no key {key_id} in {project or actor.organisation}")
        return record

    async def rename(self, actor: Actor, project: str, key_id: str, name: str) -> ApiKeyRecord:
        """Call it something else.

        Raises:
            NoSuchRecord, UnacceptableValue
        """
        record = await self.find(actor, project, key_id)
        named = replace(record, name=checked_name(name))
        await self._keys.rename(key_id, named.name)
        return named

    async def rotate(self, actor: Actor, project: str, key_id: str, *, overlap: float) -> IssuedKey:
        """A new key like an old one, which goes on for `overlap` seconds; one that was to expire lives as long again.

        It inherits the old one's budget, and what is used of it this month.

        Raises:
            NoSuchRecord: there is none, or it has expired.
            NotPermitted: it is another person's: end it, and make one.
            UnacceptableValue: an overlap of less than nothing, or of more than 30 days.
        """
        if not 0 <= overlap <= LONGEST_OVERLAP:
            raise UnacceptableValue("overlap", f"An overlap is 0 to {LONGEST_OVERLAP:.0f} seconds.")
        old, now = await self.find(actor, project, key_id), self._clock()
        if not old.is_live(now):
            raise NoSuchRecord(f"key {key_id} has expired")
        if old.user not in ("", actor.user):
            raise NotPermitted("another person's key")
        lifetime = None if old.expires is None else now + (old.expires - old.created)
        wish = KeyWish(old.name, old.scopes, old.models, lifetime)
        issued = await self._issue(actor.organisation, project, wish, old.user)
        await self._budgets.inherit(actor.organisation, key_id, issued.record.key_id)  # before anybody has the key
        try:
            await self._keys.expire(key_id, now + overlap)
        finally:  # an outcome that nobody knows is announced too: it costs a look at the store
            self._announce(KeySet(key=key_id))
        return issued

    async def revoke(self, actor: Actor, project: str, key_id: str) -> ApiKeyRecord:
        """End a key, everywhere, for good.

        Raises:
            NoSuchRecord
        """
        record = await self.find(actor, project, key_id)
        await self.revoke_all(KeySet(key=key_id))
        return record

    async def revoke_all(self, keys: KeySet) -> int:
        """End every key of a project, a person, an organisation; how many there were. Does not ask who wants that."""
        try:
            return await self._keys.revoke(keys, self._clock())
        finally:
            self._announce(keys)

    async def _issue(self, organisation: str, project: str, wish: KeyWish, user: str) -> IssuedKey:
        if project:
            await self._require_project(organisation, project)
        now = self._clock()
        return await issue(
            self._keys, self._pepper, organisation=organisation, project=project, wish=wish, user=user, now=now
        )

    async def _require_project(self, organisation: str, project: str) -> None:
        found = await self._accounts.find_project(organisation, project)
        if found is None or found.archived is not None:
            raise NoSuchRecord(f"no project {project} of {organisation} is in use")

    async def _end_if_archived(self, record: ApiKeyRecord) -> None:
        """An archived project's keys are ended after it is archived: one made in between is ended here."""
        try:
            await self._require_project(record.organisation, record.project)
        except NoSuchRecord:
            await self.revoke_all(KeySet(key=record.key_id))
            raise

    def _checked(self, wish: KeyWish) -> KeyWish:
        if wish.expires is not None and wish.expires <= self._clock():
            raise UnacceptableValue("expires_at", "A key expires in the future.")
        for model in wish.models or ():
            if not (model.strip() and model.isprintable() and len(model) <= LONGEST_MODEL_NAME):
                raise UnacceptableValue("models", f"A model's name has 1 to {LONGEST_MODEL_NAME} printable characters.")
        if len(wish.models or ()) > MOST_MODELS:
            raise UnacceptableValue("models", f"A key names {MOST_MODELS} models at most.")
        return replace(wish, name=checked_name(wish.name))


def _require_rights(project: str, wish: KeyWish, by: Principal | None) -> None:
    """A project's keys are for its models, whoever makes them; an admin key has no right that its maker's key lacks.

    Raises:
        NotPermitted: it would be more.
    """
    of_its_kind = PROJECT_SCOPES if project else ADMIN_SCOPES
    possible = of_its_kind if by is None or project else of_its_kind & by.scopes
    if not (of_its_kind if wish.scopes is None else wish.scopes) <= possible:
        raise NotPermitted("more scopes than may be given")
    if by is not None and by.models is not None and not (wish.models is not None and wish.models <= by.models):
        raise NotPermitted("more models than may be given")


def _may_manage(actor: Actor, record: ApiKeyRecord) -> bool:
    return actor.role.rank >= Role.ADMIN.rank or (actor.user != "" and record.user == actor.user)
