"""Members of an organisation and their roles, and the rules for who may change them.

Removing a member also revokes the member's API keys; browser sessions end because they look the membership up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import LastOwner, NoSuchRecord
from auth_billing.people.organisation_records import OrganisationStore
from auth_billing.people.people_records import Membership, MembershipStore, User, UserStore
from router.messages import KeySet


@dataclass(frozen=True)
class Member:
    """A user with the user's role in one organisation."""

    user: User
    role: Role
    added: float


@dataclass(eq=False, repr=False)
class Members:
    """Lists, adds, changes and removes the members of organisations.

    Args:
        users, memberships, accounts: the stores.
        end_keys: revokes a set of API keys at every gateway (`ApiKeys.revoke_all`).
    """

    users: UserStore
    memberships: MembershipStore
    accounts: OrganisationStore
    end_keys: Callable[[KeySet], Awaitable[object]]

    async def all(self, organisation: str) -> list[Member]:
        """Return all members of an organisation, oldest membership first."""
        memberships = await self.memberships.of_organisation(organisation)
        users = {user.id: user for user in await self.users.find_all([each.user for each in memberships])}
        return [Member(users[each.user], each.role, each.added) for each in memberships if each.user in users]

    async def find(self, organisation: str, user_id: str) -> Member:
        """Return one member of an organisation.

        Raises:
            NoSuchRecord: the organisation has no member with this id.
        """
        membership = await self._membership(organisation, user_id)
        user = await self.users.find(user_id)
        if user is None:
            raise NoSuchRecord(f"no user {user_id}")
        return Member(user, membership.role, membership.added)

    async def join(self, organisation: str, user_id: str, role: Role, now: float) -> None:
        """Make a user a member with `role`, from `now` (Unix seconds); an existing member keeps the current role."""
        await self.memberships.add(Membership(organisation, user_id, role, now))
        membership = await self._membership(organisation, user_id)
        if membership.role is Role.OWNER:
            await self.accounts.add_owner(organisation, user_id)

    async def change_role(self, actor: Actor, user_id: str, role: Role) -> Member:
        """Give a member another role, and revoke those of the member's keys that have more rights than the role allows.

        Raises:
            NotPermitted: the actor may not assign the new role or take the current one.
            NoSuchRecord: the organisation has no member with this id.
            LastOwner: the member is the organisation's only owner.
        """
        membership = await self._membership(actor.organisation, user_id)
        actor.require_over(role, membership.role)
        if role is not Role.OWNER:
            await self._give_up_ownership(membership)
        await self.memberships.set_role(actor.organisation, user_id, role)
        if role is Role.OWNER:  # after the role, so that each counted owner has the role
            await self.accounts.add_owner(actor.organisation, user_id)
        if role.rank < Role.ADMIN.rank:
            admin_only = role is not Role.VIEWER
            await self.end_keys(KeySet(organisation=actor.organisation, user=user_id, admin_only=admin_only))
        return await self.find(actor.organisation, user_id)

    async def remove(self, actor: Actor, user_id: str) -> None:
        """End a membership, and with it the user's sessions and keys in the organisation. Each member may remove
        themselves.

        Raises:
            NotPermitted: the actor may not remove this member.
            NoSuchRecord: the organisation has no member with this id.
            LastOwner: the member is the organisation's only owner.
        """
        membership = await self._membership(actor.organisation, user_id)
        if actor.user != user_id:
            actor.require_over(membership.role)
        await self._give_up_ownership(membership)
        await self.memberships.remove(actor.organisation, user_id)
        await self.end_keys(KeySet(organisation=actor.organisation, user=user_id))

    async def _membership(self, organisation: str, user_id: str) -> Membership:
        membership = await self.memberships.find(organisation, user_id)
        if membership is None:
            raise NoSuchRecord(f"no member {user_id} of {organisation}")
        return membership

    async def _give_up_ownership(self, membership: Membership) -> None:
        """Remove a member from the owners before the role changes: of two owners who remove each other, one stays."""
        if membership.role is Role.OWNER and not await self.accounts.give_up_owner(
            membership.organisation, membership.user
        ):
            raise LastOwner(f"{membership.user} is the last owner of {membership.organisation}")
