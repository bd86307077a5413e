"""Response models of the signed-in user, sign-in and second factor, and of members and invitations."""

from __future__ import annotations

from auth_billing.access.roles import Role
from auth_billing.people.people_records import InvitationStatus
from chat_ui.http.schemas.base import Schema


class PersonName(Schema):
    """A user."""

    id: str
    email: str
    name: str


class Named(Schema):
    """An organisation or a project."""

    id: str
    name: str


class Me(Schema):
    """The signed-in user, with organisation, role and projects."""

    user: PersonName
    organisation: Named
    role: Role
    project: str
    """Id of the project that chats are billed to; empty if there is none, and models can't be used."""
    projects: list[Named]
    operator: bool
    """Whether the user operates the installation, and may see its workers and queues."""
    by_provider: bool
    """Whether the user signed in at the identity provider."""


class ProviderOptions(Schema):
    """How people may sign in at the identity provider."""

    label: str | None
    """Name of the provider; null: there is none."""
    password_sign_in: bool
    """Whether members may sign in with a password too; owners always may."""


class ProviderUrl(Schema):
    """A page of the identity provider that the browser has to visit."""

    url: str | None
    """Null: there is nothing to do at the provider."""


class PendingSignIn(Schema):
    """A sign-in that needs a code of the second factor: `POST /api/session/second-factor` within five minutes."""

    challenge: str


class SecondFactorStatus(Schema):
    """The second factor of the signed-in user."""

    enabled: bool
    recovery_codes_left: int


class NewSecondFactor(Schema):
    """What an authenticator app needs, not shown again. A code of the app ends the enrolment."""

    secret: str
    uri: str
    qr_code: str
    """The URI as a QR code: a `data:` URL of an image."""


class RecoveryCodes(Schema):
    """Codes that replace the authenticator app once each, not shown again."""

    codes: list[str]


class SignUpOptions(Schema):
    """How people may sign up."""

    open: bool
    """Whether people may sign up without an invitation."""


class Identity(Schema):
    """An account at the identity provider that signs in as the person."""

    id: str
    issuer: str
    subject: str
    """The issuer's identifier of the account."""
    connected_at: int


class IdentityList(Schema):
    """The person's identities, oldest first."""

    identities: list[Identity]


class PasswordResetOptions(Schema):
    """How people who have forgotten their password get a reset link."""

    by_mail: bool
    """Whether a link is mailed on request; if not, an administrator makes one."""


class PasswordResetLink(Schema):
    """A new password reset link."""

    token: str
    """Token of the link, which is not shown again."""


class InvitationPreview(Schema):
    """An invitation as shown to the person who has its token."""

    organisation: str
    role: Role
    email: str | None
    expires_at: int


class Person(Schema):
    """A member of the organisation."""

    id: str
    email: str
    name: str
    role: Role
    added_at: int
    second_factor: bool
    """Whether sign-in with the password needs a code too."""


class PersonList(Schema):
    """All members, oldest first."""

    people: list[Person]


class Invitation(Schema):
    """An invitation."""

    id: str
    email: str | None
    role: Role
    status: InvitationStatus
    created_at: int
    expires_at: int
    invited_by: str | None
    accepted_by: str | None


class InvitationList(Schema):
    """All invitations, newest first."""

    invitations: list[Invitation]


class NewInvitation(Invitation):
    """A new invitation with its token, which is not shown again."""

    token: str
