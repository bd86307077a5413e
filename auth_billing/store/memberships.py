"""MongoDB store of memberships: `memberships {_id: "<organisation>:<user>", organisation, user, ...}`.

The document of an ended membership keeps only `role` and `former`: a later membership of the user gets the highest.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from auth_billing.access.roles import Role
from auth_billing.people.people_records import Membership
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document

COLLECTION = "memberships"
_KEPT = ("role", "former")
_ENDED = {each.name: "" for each in fields(Membership) if each.name not in _KEPT}
"""Fields that the end of a membership removes."""


class MongoMembershipStore:
    """MongoDB implementation of `people_records.MembershipStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._memberships = connection.durable(COLLECTION)

    async def add(self, membership: Membership) -> None:
        """Store a user's new membership of an organisation durably; an existing one is left unchanged.

        The highest role of an earlier membership is stored as its `former`.
        """
        ended = {"_id": _id(membership.organisation, membership.user), "organisation": None}
        former = await self._memberships.find_record(_highest_role, ended)
        if former is None:
            await self._memberships.insert_if_absent({**_document(membership), "_id": ended["_id"]})
        else:
            await self._memberships.update_one(ended, {"$set": _document(replace(membership, former=former))})

    async def find(self, organisation: str, user: str) -> Membership | None:
        """Return a user's membership of an organisation, or `None` if the user is no member."""
        return await self._memberships.find_record(_membership, _present(organisation, user))

    async def of_user(self, user: str) -> list[Membership]:
        """Return a user's memberships of all organisations, oldest first."""
        return await self._all({"user": user})

    async def of_organisation(self, organisation: str) -> list[Membership]:
        """Return all memberships of an organisation, oldest first."""
        return await self._all({"organisation": organisation})

    async def has_owner(self, organisation: str, besides: str = "") -> bool:
        """Return whether the organisation has an owner other than the user `besides`."""
        owner = {"organisation": organisation, "role": Role.OWNER.value, "user": {"$ne": besides}}
        return await self._memberships.find_one(owner) is not None

    async def set_role(self, organisation: str, user: str, role: Role, former: Role | None = None) -> bool:
        """Set a member's role, and the highest `former` one if given; return false if there is no such member."""
        change = {"$set": {"role": role.value, **({"former": former.value} if former else {})}}
        return await self._memberships.update_matching(_present(organisation, user), change)

    async def confirm(self, organisation: str, user: str, now: float) -> None:
        """Note that the identity provider's groups gave a membership its role at `now` (Unix seconds)."""
        await self._memberships.update_one(_present(organisation, user), {"$set": {"confirmed": now}})

    async def unconfirmed(self, since: float) -> list[Membership]:
        """Return all memberships from an identity provider's groups that were last confirmed before `since`.

        `since` is in Unix seconds.
        """
        return await self._all(_unconfirmed(since))

    async def remove(self, organisation: str, user: str, unconfirmed_since: float | None = None) -> bool:
        """End a user's membership of an organisation; return false if there was none.

        Its highest role is kept for a later membership.

        `unconfirmed_since`: end it only if `unconfirmed` would return it for this time (Unix seconds), in one update.
        """
        query = _present(organisation, user)
        if unconfirmed_since is not None:
            query |= _unconfirmed(unconfirmed_since)
        return await self._memberships.update_matching(query, {"$unset": _ENDED})

    async def _all(self, query: dict[str, Any]) -> list[Membership]:
        found = self._memberships.find(query).sort([("added", 1), ("_id", 1)])
        return [_membership(document) async for document in found]


def _id(organisation: str, user: str) -> str:
    return f"{organisation}:{user}"


def _present(organisation: str, user: str) -> dict[str, Any]:
    """Return the query for a membership that has not ended."""
    return {"_id": _id(organisation, user), "organisation": organisation}


def _unconfirmed(since: float) -> dict[str, Any]:
    """Return the query for memberships from an issuer's groups that were last confirmed before `since`."""
    return {"issuer": {"$gt": ""}, "confirmed": {"$lt": since}}


def _document(membership: Membership) -> dict[str, Any]:
    former = membership.former and membership.former.value
    return {**vars(membership), "role": membership.role.value, "former": former}


def _membership(document: dict[str, Any]) -> Membership:
    return from_document(Membership, document, **_roles(document))


def _roles(document: dict[str, Any]) -> dict[str, Any]:
    former = document.get("former")
    return {"role": Role(document["role"]), "former": None if former is None else Role(former)}


def _highest_role(document: dict[str, Any]) -> Role:
    roles: list[Role] = [role for role in _roles(document).values() if role is not None]
    return max(roles, key=lambda role: role.rank)
