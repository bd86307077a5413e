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
class PeopleFixture:
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

    async def add_members(self, **roles: Role) -> None:
        await self.accounts.ensure_organisation(Organisation(ORG, "Org", 1.0))
        for name, role in roles.items():
            await self.users.add(User(name, f"{name}@example.org", name, 1.0, "hash"))
            await self.members.join(ORG, name, role, self.clock())
            self.clock.now += 1

    def actor(self, user: str) -> Actor:
        return Actor(ORG, user, self.memberships.memberships[ORG, user].role)


@pytest.fixture
def people() -> PeopleFixture:
    return PeopleFixture()


ONE_PER_ROLE = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "viewer": Role.VIEWER}


async def test_members_are_listed_with_their_roles(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    assert {each.user.id: each.role for each in await people.members.all(ORG)} == ONE_PER_ROLE
    assert await people.members.all("org-2") == []
    with pytest.raises(NoSuchRecord):
        await people.members.find("org-2", "owner")


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
async def test_an_actor_cannot_assign_or_remove_a_higher_role(
    people: PeopleFixture, actor: str, whom: str, role: Role
) -> None:
    await people.add_members(**ONE_PER_ROLE)
    with pytest.raises(NotPermitted):
        await people.members.change_role(people.actor(actor), whom, role)
    assert (await people.members.find(ORG, whom)).role is ONE_PER_ROLE[whom]


async def test_an_administrator_changes_roles_below_owner(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    assert (await people.members.change_role(people.actor("admin"), "viewer", Role.ADMIN)).role is Role.ADMIN
    await people.members.remove(people.actor("admin"), "member")
    with pytest.raises(NoSuchRecord):
        await people.members.find(ORG, "member")
    with pytest.raises(NotPermitted):
        await people.members.remove(people.actor("admin"), "owner")


async def test_keys_with_more_rights_than_the_new_role_are_revoked(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    owner = people.actor("owner")
    await people.members.change_role(owner, "viewer", Role.ADMIN)
    assert people.ended_keys == []
    await people.members.change_role(owner, "viewer", Role.MEMBER)
    await people.members.change_role(owner, "member", Role.VIEWER)
    await people.members.remove(owner, "admin")
    assert people.ended_keys == [
        KeySet(organisation=ORG, user="viewer", admin_only=True),
        KeySet(organisation=ORG, user="member"),
        KeySet(organisation=ORG, user="admin"),
    ]


async def test_the_last_owner_cannot_be_removed(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    owner = people.actor("owner")
    with pytest.raises(LastOwner):
        await people.members.remove(owner, "owner")
    with pytest.raises(LastOwner):
        await people.members.change_role(owner, "owner", Role.ADMIN)
    await people.members.change_role(owner, "admin", Role.OWNER)
    await people.members.remove(owner, "owner")
    with pytest.raises(LastOwner):
        await people.members.remove(people.actor("admin"), "admin")


async def test_each_member_may_leave(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    await people.members.remove(people.actor("viewer"), "viewer")
    with pytest.raises(NotPermitted):
        await people.members.remove(people.actor("member"), "admin")


async def test_joining_again_keeps_the_role(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    await people.members.join(ORG, "viewer", Role.OWNER, 9.0)
    assert (await people.members.find(ORG, "viewer")).role is Role.VIEWER
    with pytest.raises(LastOwner):
        await people.members.remove(people.actor("owner"), "owner")


async def test_a_token_opens_its_invitation_and_is_not_stored(people: PeopleFixture) -> None:
    await people.add_members(admin=Role.ADMIN)
    invitation, token = await people.invitations.invite(people.actor("admin"), Role.MEMBER, "Bob@Example.org")
    assert await people.invitations.open(token) == invitation
    assert token not in repr(vars(invitation))
    assert (invitation.email, invitation.invited_by) == ("Bob@Example.org", "admin")


@pytest.mark.parametrize("token", ["", "x", "' OR '1'='1", '{"$ne": 1}', "\0", "\ud800", "é" * 43, "x" * 1_000_000])
async def test_unknown_tokens_are_refused(people: PeopleFixture, token: str) -> None:
    await people.add_members(admin=Role.ADMIN)
    await people.invitations.invite(people.actor("admin"), Role.MEMBER)
    with pytest.raises(InvitationVoid):
        await people.invitations.open(token)


async def test_expired_accepted_and_revoked_invitations_are_refused(people: PeopleFixture) -> None:
    await people.add_members(admin=Role.ADMIN)
    (used, a), (revoked, b), (expired, c) = [
        await people.invitations.invite(people.actor("admin"), Role.MEMBER) for _ in range(3)
    ]
    await people.invitations.claim(a, "user-1")
    await people.invitations.revoke(people.actor("admin"), revoked.id)
    people.clock.now += DAYS_VALID * 86_400
    for token in (a, b, c):
        with pytest.raises(InvitationVoid):
            await people.invitations.open(token)
        with pytest.raises(InvitationVoid):
            await people.invitations.claim(token, "user-2")
    statuses = {each.id: each.status(people.clock()) for each in await people.invitations.all(ORG)}
    assert statuses == {
        used.id: InvitationStatus.ACCEPTED,
        revoked.id: InvitationStatus.REVOKED,
        expired.id: InvitationStatus.EXPIRED,
    }


@pytest.mark.parametrize(
    ("actor", "role"),
    [("viewer", Role.VIEWER), ("member", Role.VIEWER), ("member", Role.OWNER), ("admin", Role.OWNER)],
)
async def test_an_actor_cannot_invite_to_a_higher_role(people: PeopleFixture, actor: str, role: Role) -> None:
    await people.add_members(**ONE_PER_ROLE)
    with pytest.raises(NotPermitted):
        await people.invitations.invite(people.actor(actor), role)


async def test_an_administrator_does_not_revoke_an_owners_invitation(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    invitation, _ = await people.invitations.invite(people.actor("owner"), Role.OWNER)
    with pytest.raises(NotPermitted):
        await people.invitations.revoke(people.actor("admin"), invitation.id)
    with pytest.raises(NotPermitted):
        await people.invitations.revoke(people.actor("viewer"), "invite-unknown")  # and is not told that there is none
    with pytest.raises(NoSuchRecord):
        await people.invitations.revoke(Actor("org-2", "", Role.OWNER), invitation.id)


async def test_a_new_first_owner_link_voids_the_previous_one(people: PeopleFixture) -> None:
    first = await people.invitations.invite_first_owner(ORG)
    second = await people.invitations.invite_first_owner(ORG)
    with pytest.raises(InvitationVoid):
        await people.invitations.open(first)
    assert (await people.invitations.open(second)).role is Role.OWNER


async def test_projects(people: PeopleFixture) -> None:
    organisation = await people.projects.create_organisation("Acme")
    owner = Actor(organisation.id, "owner", Role.OWNER)
    default = await people.projects.default(organisation.id)
    people.clock.now += 1
    web = await people.projects.create(owner, "Web")
    assert await people.projects.all(organisation.id) == [default, web]
    assert (await people.projects.rename(owner, web.id, " Site ")).name == "Site"
    await people.projects.archive(owner, default.id)
    assert (await people.projects.default(organisation.id)).id == web.id
    assert len(await people.projects.all(organisation.id, archived=True)) == 2
    for stranger in (Actor("org-2", "x", Role.OWNER), Actor(organisation.id, "x", Role.MEMBER)):
        with pytest.raises((NoSuchRecord, NotPermitted)):
            await people.projects.archive(stranger, web.id)


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
