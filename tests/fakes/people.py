"""Stores of users, memberships and invitations in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from auth_billing.access.roles import Role
from auth_billing.people.input_normalisation import fold_email
from auth_billing.people.oidc.identity_records import Identity
from auth_billing.people.password_reset import PasswordResetRecord
from auth_billing.people.people_records import Invitation, Membership, User
from auth_billing.people.second_factor import SecondFactorRecord
from tests.fakes.accounts import Absence


class DictUserStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.users: dict[str, User] = {}

    async def add(self, user: User) -> bool:
        if await self.find_by_email(user.email) is not None or user.id in self.users:
            return False
        self.users[user.id] = user
        return True

    async def find(self, user_id: str) -> User | None:
        self.absence.check()
        return self.users.get(user_id)

    async def find_by_email(self, email: str) -> User | None:
        self.absence.check()
        return next((user for user in self.users.values() if fold_email(user.email) == fold_email(email)), None)

    async def find_all(self, user_ids: Sequence[str]) -> list[User]:
        return [user for user_id in user_ids if (user := await self.find(user_id)) is not None]

    async def rehash(self, user_id: str, old: str, new: str) -> bool:
        user = await self.find(user_id)
        if user is None or user.password != old:
            return False
        self.users[user_id] = replace(user, password=new)
        return True

    async def change_password(self, user_id: str, old: str, new: str) -> User | None:
        user = await self.find(user_id)
        if user is None or user.password != old:
            return None
        self.users[user_id] = replace(user, password=new, version=user.version + 1)
        return self.users[user_id]

    async def reset_password(self, user_id: str, version: int, new: str) -> User | None:
        user = await self.find(user_id)
        if user is None or user.version != version:
            return None
        return await self.change_password(user_id, user.password, new)

    async def end_sessions(self, user_id: str) -> None:
        if (user := await self.find(user_id)) is not None:
            self.users[user_id] = replace(user, version=user.version + 1)


class DictMembershipStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.memberships: dict[tuple[str, str], Membership] = {}
        self.former: dict[tuple[str, str], Role] = {}

    async def add(self, membership: Membership) -> None:
        self.absence.check()
        id_ = membership.organisation, membership.user
        self.memberships.setdefault(id_, replace(membership, former=self.former.get(id_, membership.former)))

    async def find(self, organisation: str, user: str) -> Membership | None:
        self.absence.check()
        return self.memberships.get((organisation, user))

    async def of_user(self, user: str) -> list[Membership]:
        self.absence.check()
        return sorted((each for each in self.memberships.values() if each.user == user), key=_age)

    async def of_organisation(self, organisation: str) -> list[Membership]:
        self.absence.check()
        return sorted((each for each in self.memberships.values() if each.organisation == organisation), key=_age)

    async def has_owner(self, organisation: str, besides: str = "") -> bool:
        members = await self.of_organisation(organisation)
        return any(each.role is Role.OWNER and each.user != besides for each in members)

    async def set_role(self, organisation: str, user: str, role: Role, former: Role | None = None) -> bool:
        found = await self.find(organisation, user)
        if found is None:
            return False
        self.memberships[organisation, user] = replace(found, role=role, former=former or found.former)
        return True

    async def confirm(self, organisation: str, user: str, now: float) -> None:
        found = await self.find(organisation, user)
        if found is not None:
            self.memberships[organisation, user] = replace(found, confirmed=now)

    async def unconfirmed(self, since: float) -> list[Membership]:
        self.absence.check()
        return [each for each in self.memberships.values() if each.issuer and each.confirmed < since]

    async def remove(self, organisation: str, user: str, unconfirmed_since: float | None = None) -> bool:
        self.absence.check()
        if unconfirmed_since is not None and not any(
            (each.organisation, each.user) == (organisation, user) for each in await self.unconfirmed(unconfirmed_since)
        ):
            return False
        removed = self.memberships.pop((organisation, user), None)
        if removed is not None:
            self.former[organisation, user] = removed.highest_role
        return removed is not None


class DictIdentityStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.identities: dict[str, Identity] = {}
        self.states: set[str] = set()

    async def add(self, identity: Identity) -> bool:
        self.absence.check()
        return self.identities.setdefault(identity.id, identity) is identity

    async def find(self, identity_id: str) -> Identity | None:
        self.absence.check()
        return self.identities.get(identity_id)

    async def of_user(self, user: str) -> list[Identity]:
        self.absence.check()
        own = [each for each in self.identities.values() if each.user == user]
        return sorted(own, key=lambda each: (each.created, each.id))

    async def remove(self, identity_id: str, user: str) -> bool:
        found = await self.find(identity_id)
        if found is None or found.user != user:
            return False
        del self.identities[identity_id]
        return True

    async def remove_all(self, user: str) -> None:
        self.absence.check()
        self.identities = {each.id: each for each in self.identities.values() if each.user != user}

    async def use_state(self, state: str, expires: float) -> bool:
        self.absence.check()
        new = state not in self.states
        self.states.add(state)
        return new


class DictInvitationStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.invitations: dict[str, Invitation] = {}

    async def add(self, invitation: Invitation) -> None:
        self.absence.check()
        self.invitations[invitation.id] = invitation

    async def find(self, organisation: str, invitation_id: str) -> Invitation | None:
        self.absence.check()
        found = self.invitations.get(invitation_id)
        return found if found is not None and found.organisation == organisation else None

    async def find_by_digest(self, digest: bytes) -> Invitation | None:
        self.absence.check()
        return next((each for each in self.invitations.values() if each.digest == digest), None)

    async def of_organisation(self, organisation: str) -> list[Invitation]:
        self.absence.check()
        own = [each for each in self.invitations.values() if each.organisation == organisation]
        return sorted(own, key=lambda each: (-each.created, each.id))

    async def claim(self, digest: bytes, user: str, now: float) -> bool:
        found = await self.find_by_digest(digest)
        if found is None or not _is_open(found) or now >= found.expires:
            return False
        self.invitations[found.id] = replace(found, accepted=now, accepted_by=user)
        return True

    async def revoke(self, organisation: str, invitation_id: str, now: float) -> bool:
        found = await self.find(organisation, invitation_id)
        if found is None or not _is_open(found):
            return False
        self.invitations[invitation_id] = replace(found, revoked=now)
        return True

    async def revoke_unowned(self, organisation: str, now: float) -> None:
        for each in await self.of_organisation(organisation):
            if not each.invited_by and each.role is Role.OWNER and not each.email and _is_open(each):
                self.invitations[each.id] = replace(each, revoked=now)


class DictPasswordResetStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.resets: dict[str, PasswordResetRecord] = {}

    async def put(self, reset: PasswordResetRecord) -> None:
        self.absence.check()
        self.resets[reset.id] = reset

    async def find_by_digest(self, digest: bytes) -> PasswordResetRecord | None:
        self.absence.check()
        return next((each for each in self.resets.values() if each.digest == digest), None)

    async def delete(self, user: str, digest: bytes) -> None:
        self.absence.check()
        if user in self.resets and self.resets[user].digest == digest:
            del self.resets[user]


class DictSecondFactorStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.factors: dict[str, SecondFactorRecord] = {}

    async def find(self, user: str) -> SecondFactorRecord | None:
        self.absence.check()
        return self.factors.get(user)

    async def confirmed(self, users: Sequence[str]) -> frozenset[str]:
        self.absence.check()
        return frozenset(user for user in users if user in self.factors and self.factors[user].confirmed is not None)

    async def begin(self, user: str, nonce: bytes) -> bool:
        found = await self.find(user)
        if found is not None and found.confirmed is not None:
            return False
        self.factors[user] = SecondFactorRecord(user, nonce)
        return True

    async def confirm(self, user: str, nonce: bytes, now: float, step: int, recovery: Sequence[bytes]) -> bool:
        found = await self.find(user)
        if found is None or found.nonce != nonce or found.confirmed is not None:
            return False
        self.factors[user] = replace(found, confirmed=now, last_step=step, recovery=tuple(recovery))
        return True

    async def accept_step(self, user: str, nonce: bytes, step: int) -> bool:
        found = await self.find(user)
        if found is None or found.nonce != nonce or found.confirmed is None or found.last_step >= step:
            return False
        self.factors[user] = replace(found, last_step=step)
        return True

    async def use_recovery_code(self, user: str, digest: bytes) -> bool:
        found = await self.find(user)
        if found is None or found.confirmed is None or digest not in found.recovery:
            return False
        self.factors[user] = replace(found, recovery=tuple(each for each in found.recovery if each != digest))
        return True

    async def remove(self, user: str) -> bool:
        self.absence.check()
        return self.factors.pop(user, None) is not None


def _age(membership: Membership) -> tuple[float, str]:
    return membership.added, membership.user


def _is_open(invitation: Invitation) -> bool:
    return invitation.accepted is None and invitation.revoked is None
