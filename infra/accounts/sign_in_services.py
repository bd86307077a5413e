"""Builds the sign-in services and reset mails of the chat API; makes invitations and links for CLI and launcher."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from auth_billing.access.roles import Actor, Role
from auth_billing.audit_log import AuditLog, Event
from auth_billing.development_account import ORGANISATION
from auth_billing.errors import NoSuchRecord, UnacceptableValue
from auth_billing.people.browser_access import BrowserAccess, PeopleStores
from auth_billing.people.input_normalisation import checked_email
from auth_billing.people.invitations import Invitations
from auth_billing.people.local_owner import is_unowned
from auth_billing.people.passwords import Passwords
from auth_billing.people.projects import Projects
from auth_billing.people.reset_mails import ResetMails
from auth_billing.people.signing_keys import load_signing_keys
from auth_billing.people.smtp import SmtpMailer, SmtpServer, SmtpTls
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.identities import MongoIdentityStore
from auth_billing.store.invitations import MongoInvitationStore
from auth_billing.store.memberships import MongoMembershipStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.password_resets import MongoPasswordResetStore
from auth_billing.store.rate_buckets import MongoBucketStore
from auth_billing.store.second_factors import MongoSecondFactorStore
from auth_billing.store.sessions import MongoSessionStore
from auth_billing.store.users import MongoUserStore
from chat_ui.settings import ChatSettings
from infra.accounts.account_services import AccountServices
from router.messages import KeySet
from runtime.lifecycle import StartupError


def browser_access(
    access: AccountServices,
    settings: ChatSettings,
    announce: Callable[[KeySet], None],
    *,
    password_sign_in: bool = True,
) -> BrowserAccess:
    """Create the sign-in services of the chat's HTTP API; they call `announce` to notify gateways of changed keys.

    `password_sign_in`: whether members other than owners may sign in with a password.

    Raises:
        StartupError: the session signing keys are unusable.
    """
    connection = access.connection
    stores = PeopleStores(
        users=MongoUserStore(connection),
        memberships=MongoMembershipStore(connection),
        invitations=MongoInvitationStore(connection),
        accounts=MongoOrganisationStore(connection),
        sessions=MongoSessionStore(connection),
        resets=MongoPasswordResetStore(connection),
        factors=MongoSecondFactorStore(connection),
        identities=MongoIdentityStore(connection),
        buckets=MongoBucketStore(connection),
    )
    return BrowserAccess(
        stores,
        pepper=access.pepper,
        signing_keys=load_signing_keys(access.home.path, settings.session_signing_keys),
        passwords=Passwords(),
        end_keys=access.keys(announce).revoke_all,
        open_sign_up=settings.open_sign_up,
        sign_ins_per_minute=settings.sign_ins_per_minute,
        password_sign_in=password_sign_in,
    )


def reset_mails(access: AccountServices, browsers: BrowserAccess, settings: ChatSettings) -> ResetMails:
    """Create the service that mails password reset links; without an SMTP server in the settings it sends none.

    Raises:
        StartupError: the settings of the SMTP server are incomplete, or its password can't be read.
    """
    mailer = SmtpMailer(smtp_server(settings)) if settings.smtp_host else None
    audit_log = AuditLog(MongoAuditLogStore(access.connection))
    return ResetMails(browsers.reset_links, browsers.throttle, audit_log, mailer, settings.public_url)


def smtp_server(settings: ChatSettings) -> SmtpServer:
    """Return the connection data of the SMTP server that the settings name, with its password.

    Raises:
        StartupError: the settings are incomplete, or the password can't be read.
    """
    tls, user, path = SmtpTls(settings.smtp_tls), settings.smtp_user, settings.smtp_password_file
    if not settings.public_url:
        raise StartupError("HEADRACE_SMTP_HOST needs HEADRACE_PUBLIC_URL, the origin of the links in mails")
    try:
        sender = checked_email(settings.smtp_sender)
    except UnacceptableValue as error:
        raise StartupError(f"HEADRACE_SMTP_SENDER={settings.smtp_sender!r}: {error}") from error
    if bool(user) != bool(path) or (user and tls is SmtpTls.NONE):
        raise StartupError(
            "HEADRACE_SMTP_USER needs HEADRACE_SMTP_PASSWORD_FILE, and HEADRACE_SMTP_TLS other than none"
        )
    try:
        password = Path(path).read_text().strip() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"HEADRACE_SMTP_PASSWORD_FILE: {error}") from error
    return SmtpServer(settings.smtp_host, settings.smtp_port, tls, sender, user, password)


async def first_owner_token(access: AccountServices) -> str:
    """Invite the first owner of the development organisation; return the token, or "" if an owner can sign in.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    stores = MongoUserStore(access.connection), MongoMembershipStore(access.connection)
    if not await is_unowned(*stores, ORGANISATION):
        return ""
    return await _invitations(access).invite_first_owner(ORGANISATION)


async def invite(access: AccountServices, organisation: str, role: Role, email: str, url: str) -> str:
    """Create an invitation to an organisation for an operator, log it for audits, and return its sign-up link at `url`.

    Raises:
        StartupError: no such organisation, or an invalid address.
        StoreUnavailable: the store does not answer.
    """
    audit_log = AuditLog(MongoAuditLogStore(access.connection))
    try:
        await Projects(MongoOrganisationStore(access.connection)).organisation(organisation)
        operator = Actor(organisation, "", Role.OWNER)
        invitation, token = await _invitations(access).invite(operator, role, email)
        details = {"role": role.value, "email": email}
        await audit_log.record(organisation, Event.INVITE_SENT, invitation.id, details=details)
    except NoSuchRecord as error:
        raise StartupError(f"there is no organisation {organisation!r}") from error
    except UnacceptableValue as error:
        raise StartupError(f"{email!r}: {error}") from error
    return invitation_link(url, token)


def _invitations(access: AccountServices) -> Invitations:
    return Invitations(MongoInvitationStore(access.connection), access.pepper)


def invitation_link(url: str, token: str) -> str:
    """Return the sign-up link at `url` for the invitation with this `token`.

    Browsers do not send the part after `#`, so no log has the token.
    """
    return f"{url}/#invitation={token}"


def reset_link(url: str, token: str) -> str:
    """Return the link at `url` with which a user sets a new password, by the one-time `token` of a reset."""
    return f"{url}/#reset={token}"


def start_link(url: str, token: str) -> str:
    """Return the link at `url` that signs the first owner in or up on this machine by `token`; a launcher prints it."""
    return f"{url}/#start={token}"
