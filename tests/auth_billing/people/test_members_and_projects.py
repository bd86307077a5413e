"""Members, invitations and projects: permissions and refusals."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import InvitationVoid, LastOwner, NoSuchRecord, NotPermitted, UnacceptableValue
from auth_billing.people.input_normalisation import checked_email, checked_name, fold_email
from auth_billing.people.invitations import DAYS_VALID, Invitations
from auth_billing.people.members import Members
from auth_billing.people.organisation_records import Organisation
from auth_billing.people.people_records import InvitationStatus, User
from auth_billing.people.projects import Projects
from router.messages import KeySet
from tests.fakes.accounts import DictAccountStore, FakeClock
from tests.fakes.people import DictInvitationStore, DictMembershipStore, DictUserStore

ORG = "org-1"


@dataclass
class House:
    clock: FakeClock = field(default_factory=FakeClock)
    users: DictUserStore = field(default_factory=DictUserStore)
    memberships: DictMembershipStore = field(default_factory=DictMembershipStore)
    stored: DictInvitationStore = field(default_factory=DictInvitationStore)
    accounts: DictAccountStore = field(default_factory=DictAccountStore)

    def __post_init__(self) -> None:
        self.ended_keys: list[KeySet] = []
        self.members = Members(self.users, self.memberships, self.accounts, self._end_keys)
        self.invitations = Invitations(self.stored, b"p" * 32, self.clock)
        self.projects = Projects(self.accounts, self.clock)

    async def _end_keys(self, keys: KeySet) -> None:
        self.ended_keys.append(keys)

    async def settle(self, **roles: Role) -> None:
        await self.accounts.ensure_organisation(Organisation(ORG, "Org", 1.0))
        for name, role in roles.items():
            await self.users.add(User(name, f"{name}@example.org", name, 1.0, "hash"))
            await self.members.join(ORG, name, role, self.clock())
            self.clock.now += 1

    def actor(self, user: str) -> Actor:
        return Actor(ORG, user, self.memberships.memberships[ORG, user].role)


@pytest.fixture
def house() -> House:
    return House()


EVERYBODY = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "viewer": Role.VIEWER}


async def test_members_are_listed_with_their_roles(house: House) -> None:
    await house.settle(**EVERYBODY)
    assert {each.user.id: each.role for each in await house.members.all(ORG)} == EVERYBODY
    assert await house.members.all("org-2") == []
    with pytest.raises(NoSuchRecord):
        await house.members.find("org-2", "owner")


@pytest.mark.parametrize(
    ("actor", "whom", "role"),
    [
        ("viewer", "viewer", Role.OWNER),
        ("member", "member", Role.ADMIN),
        ("member", "viewer", Role.MEMBER),
        ("admin", "admin", Role.OWNER),
        ("admin", "member", Role.OWNER),
        ("admin", "owner", Role.MEMBER),
    ],
)
async def test_an_actor_cannot_assign_or_remove_a_higher_role(house: House, actor: str, whom: str, role: Role) -> None:
    await house.settle(**EVERYBODY)
    with pytest.raises(NotPermitted):
        await house.members.change_role(house.actor(actor), whom, role)
    assert (await house.members.find(ORG, whom)).role is EVERYBODY[whom]


async def test_an_administrator_changes_roles_below_owner(house: House) -> None:
    await house.settle(**EVERYBODY)
    assert (await house.members.change_role(house.actor("admin"), "viewer", Role.ADMIN)).role is Role.ADMIN
    await house.members.remove(house.actor("admin"), "member")
    with pytest.raises(NoSuchRecord):
        await house.members.find(ORG, "member")
    with pytest.raises(NotPermitted):
        await house.members.remove(house.actor("admin"), "owner")


async def test_keys_with_more_rights_than_the_new_role_are_revoked(house: House) -> None:
    await house.settle(**EVERYBODY)
    owner = house.actor("owner")
    await house.members.change_role(owner, "viewer", Role.ADMIN)
    assert house.ended_keys == []
    await house.members.change_role(owner, "viewer", Role.MEMBER)
    await house.members.change_role(owner, "member", Role.VIEWER)
    await house.members.remove(owner, "admin")
    assert house.ended_keys == [
        KeySet(organisation=ORG, user="viewer", admin_only=True),
        KeySet(organisation=ORG, user="member"),
        KeySet(organisation=ORG, user="admin"),
    ]


async def test_the_last_owner_cannot_be_removed(house: House) -> None:
    await house.settle(**EVERYBODY)
    owner = house.actor("owner")
    with pytest.raises(LastOwner):
        await house.members.remove(owner, "owner")
    with pytest.raises(LastOwner):
        await house.members.change_role(owner, "owner", Role.ADMIN)
    await house.members.change_role(owner, "admin", Role.OWNER)
    await house.members.remove(owner, "owner")
    with pytest.raises(LastOwner):
        await house.members.remove(house.actor("admin"), "admin")


async def test_each_member_may_leave(house: House) -> None:
    await house.settle(**EVERYBODY)
    await house.members.remove(house.actor("viewer"), "viewer")
    with pytest.raises(NotPermitted):
        await house.members.remove(house.actor("member"), "admin")


async def test_joining_again_keeps_the_role(house: House) -> None:
    await house.settle(**EVERYBODY)
    await house.members.join(ORG, "viewer", Role.OWNER, 9.0)
    assert (await house.members.find(ORG, "viewer")).role is Role.VIEWER
    with pytest.raises(LastOwner):
        await house.members.remove(house.actor("owner"), "owner")


async def test_a_token_opens_its_invitation_and_is_not_stored(house: House) -> None:
    await house.settle(admin=Role.ADMIN)
    invitation, token = await house.invitations.invite(house.actor("admin"), Role.MEMBER, "Bob@Example.org")
    assert await house.invitations.open(token) == invitation
    assert token not in repr(vars(invitation))
    assert (invitation.email, invitation.invited_by) == ("Bob@Example.org", "admin")


@pytest.mark.parametrize("token", ["", "x", "' OR '1'='1", '{"$ne": 1}', "\0", "\ud800", "é" * 43, "x" * 1_000_000])
async def test_unknown_tokens_are_refused(house: House, token: str) -> None:
    await house.settle(admin=Role.ADMIN)
    await house.invitations.invite(house.actor("admin"), Role.MEMBER)
    with pytest.raises(InvitationVoid):
        await house.invitations.open(token)


async def test_expired_accepted_and_revoked_invitations_are_refused(house: House) -> None:
    await house.settle(admin=Role.ADMIN)
    (used, a), (revoked, b), (expired, c) = [
        await house.invitations.invite(house.actor("admin"), Role.MEMBER) for _ in range(3)
    ]
    await house.invitations.claim(a, "somebody")
    await house.invitations.revoke(house.actor("admin"), revoked.id)
    house.clock.now += DAYS_VALID * 86_400
    for token in (a, b, c):
        with pytest.raises(InvitationVoid):
            await house.invitations.open(token)
        with pytest.raises(InvitationVoid):
            await house.invitations.claim(token, "somebody else")
    statuses = {each.id: each.status(house.clock()) for each in await house.invitations.all(ORG)}
    assert statuses == {
        used.id: InvitationStatus.ACCEPTED,
        revoked.id: InvitationStatus.REVOKED,
        expired.id: InvitationStatus.EXPIRED,
    }


@pytest.mark.parametrize(
    ("actor", "role"),
    [("viewer", Role.VIEWER), ("member", Role.VIEWER), ("member", Role.OWNER), ("admin", Role.OWNER)],
)
async def test_an_actor_cannot_invite_to_a_higher_role(house: House, actor: str, role: Role) -> None:
    await house.settle(**EVERYBODY)
    with pytest.raises(NotPermitted):
        await house.invitations.invite(house.actor(actor), role)


async def test_an_administrator_does_not_revoke_an_owners_invitation(house: House) -> None:
    await house.settle(**EVERYBODY)
    invitation, _ = await house.invitations.invite(house.actor("owner"), Role.OWNER)
    with pytest.raises(NotPermitted):
        await house.invitations.revoke(house.actor("admin"), invitation.id)
    with pytest.raises(NotPermitted):
        await house.invitations.revoke(house.actor("viewer"), "invite-unknown")  # and is not told that there is none
    with pytest.raises(NoSuchRecord):
        await house.invitations.revoke(Actor("org-2", "", Role.OWNER), invitation.id)


async def test_a_new_first_owner_link_voids_the_previous_one(house: House) -> None:
    first = await house.invitations.invite_first_owner(ORG)
    second = await house.invitations.invite_first_owner(ORG)
    with pytest.raises(InvitationVoid):
        await house.invitations.open(first)
    assert (await house.invitations.open(second)).role is Role.OWNER


async def test_projects(house: House) -> None:
    organisation = await house.projects.create_organisation("Acme")
    owner = Actor(organisation.id, "owner", Role.OWNER)
    default = await house.projects.default(organisation.id)
    house.clock.now += 1
    web = await house.projects.create(owner, "Web")
    assert await house.projects.all(organisation.id) == [default, web]
    assert (await house.projects.rename(owner, web.id, " Site ")).name == "Site"
    await house.projects.archive(owner, default.id)
    assert (await house.projects.default(organisation.id)).id == web.id
    assert len(await house.projects.all(organisation.id, archived=True)) == 2
    for stranger in (Actor("org-2", "x", Role.OWNER), Actor(organisation.id, "x", Role.MEMBER)):
        with pytest.raises((NoSuchRecord, NotPermitted)):
            await house.projects.archive(stranger, web.id)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "@b", "a@", "a@b\r\nBcc: c@d", "a b@c", "a@b c", "a@@b", "a@b@c", "a@-b", "a@b..c", ".a@b", "a\0@b"),
        *("<a@b>", '"a b"@c', "a@[127.0.0.1]", "x" * 255 + "@b", "a@" + "b" * 300, "ﷺ" * 250 + "@b", "a@b\u202e.org"),
    ],
)
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(UnacceptableValue) as caught:
        checked_email(text)
    assert caught.value.param == "email"


def test_addresses_are_compared_case_folded_and_normalised() -> None:
    assert checked_email(" ＡＤＡ@example.org ") == "ADA@example.org"
    assert fold_email("Straße@EXAMPLE.org") == fold_email("STRASSE@example.org")
    assert checked_email("zażółć.o'neill+x@żółw.example") == "zażółć.o'neill+x@żółw.example"


@pytest.mark.parametrize("text", ["", "  ", "x" * 101, "x" * 10_000, "a\nb", "a\0", "a\u202eb", "\u200b", "a\ud800"])
def test_invalid_names_are_refused(text: str) -> None:
    with pytest.raises(UnacceptableValue):
        checked_name(text)


def test_unusual_names_are_accepted() -> None:
    for name in ("<script>alert(1)</script>", "=HYPERLINK()", "李雷", "O'Brien"):
        assert checked_name(name) == name
