"""Factory of the sign-in at an OpenID Connect provider; its periodic task ends memberships that are not confirmed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from auth_billing.audit_log import AuditLog
from auth_billing.development_account import ORGANISATION
from auth_billing.errors import StoreUnavailable
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.members import Members
from auth_billing.people.oidc import group_roles
from auth_billing.people.oidc.configuration import OidcConfiguration, parse_group_roles
from auth_billing.people.oidc.oidc_sign_in import OidcSignIn
from auth_billing.people.oidc.provider import OidcProvider
from auth_billing.store.identities import MongoIdentityStore
from auth_billing.store.users import MongoUserStore
from chat_ui.settings import OidcSettings
from infra.accounts.account_services import AccountServices
from runtime.lifecycle import StartupError

CONFIRMATION_INTERVAL = 3600.0
"""Seconds between two looks for memberships from groups that no sign-in has confirmed for long."""

_log = structlog.get_logger(__name__)


def oidc_configuration(settings: OidcSettings, public_url: str) -> OidcConfiguration | None:
    """Return the OpenID Connect provider's configuration from the settings; `None` if no issuer is set.

    Raises:
        StartupError: a setting is missing or malformed.
    """
    if not settings.oidc_issuer:
        return None
    return OidcConfiguration(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=_client_secret(settings.oidc_client_secret_file),
        origin=public_url,
        scopes=settings.oidc_scopes,
        groups_claim=settings.oidc_groups_claim,
        group_roles=parse_group_roles(settings.oidc_group_roles, ORGANISATION),
        label=settings.oidc_label,
        session_age=settings.oidc_session_hours * 3600.0,
    )


def _client_secret(path: str) -> str:
    try:
        secret = Path(path).read_text().strip() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"HEADRACE_OIDC_CLIENT_SECRET_FILE: {error}") from error
    if path and not secret:
        raise StartupError(f"HEADRACE_OIDC_CLIENT_SECRET_FILE: {path} is empty")
    return secret


def oidc_sign_in(
    access: AccountServices, browsers: BrowserAccess, settings: OidcSettings, public_url: str
) -> OidcSignIn | None:
    """Create the sign-in at the OpenID Connect provider of the settings; `None` if no issuer is set.

    Calls no provider yet.

    Raises:
        StartupError: a setting is missing or malformed.
    """
    configuration = oidc_configuration(settings, public_url)
    if configuration is None:
        return None
    return OidcSignIn(
        configuration,
        OidcProvider(configuration),
        browsers,
        MongoUserStore(access.connection),
        MongoIdentityStore(access.connection),
        secret=access.pepper,
    )


async def end_unconfirmed(members: Members, audit: AuditLog, settings: OidcSettings) -> None:
    """End memberships from identity providers' groups that no sign-in confirmed for long; repeat this until cancelled.

    Memberships from each issuer's groups end so, also if no issuer is configured any more.
    """
    max_age = settings.oidc_membership_days * 86_400.0
    while True:
        try:
            for user, change in await group_roles.end_unconfirmed(members, members.clock() - max_age):
                details = {"role": change.role.value, "source": "identity provider"}
                await audit.record(change.organisation, change.event, user, details=details)
        except StoreUnavailable as error:
            _log.warning("memberships from groups not looked through", reason=str(error))
        await asyncio.sleep(CONFIRMATION_INTERVAL)
