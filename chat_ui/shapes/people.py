"""Who is signed in, who else there is, and who may come."""

from __future__ import annotations

from auth_billing.people.people_records import InvitationStatus
from auth_billing.people.roles import Role
from chat_ui.shapes.base import Shape


class PersonName(Shape):
    """Somebody."""

    id: str
    email: str
    name: str


class Named(Shape):
    """Something with a name."""

    id: str
    name: str


class Me(Shape):
    """Who is signed in, where, and as what."""

    user: PersonName
    organisation: Named
    role: Role
    project: str
    """That chats are billed to; empty: there is none, and nothing can be asked."""
    projects: list[Named]


class Ways(Shape):
    """How to become somebody."""

    open: bool
    """Whether anybody may sign up, or only who is invited."""


class InvitationShown(Shape):
    """What an invitation is for, for whoever has its token."""

    organisation: str
    role: Role
    email: str | None
    expires_at: int


class Person(Shape):
    """A member, for those who administer members."""

    id: str
    email: str
    name: str
    role: Role
    added_at: int


class PersonList(Shape):
    """All members, oldest first."""

    people: list[Person]


class Invitation(Shape):
    """An invitation."""

    id: str
    email: str | None
    role: Role
    status: InvitationStatus
    created_at: int
    expires_at: int
    invited_by: str | None
    accepted_by: str | None


class InvitationList(Shape):
    """All invitations, newest first."""

    invitations: list[Invitation]


class NewInvitation(Invitation):
    """An invitation with its token, which is told this once."""

    token: str
