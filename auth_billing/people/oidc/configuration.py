"""Defines and checks the configuration of an OpenID Connect provider, and the roles that its groups give."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from auth_billing.access.roles import Role
from runtime.lifecycle import StartupError

CALLBACK_PATH = "/api/oidc/callback"
SIGN_IN_PATH = "/sign-in"
MAX_GROUP_ROLES = 1000
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ORIGIN = re.compile(r"https?://[^/?#@\s]+")


@dataclass(frozen=True)
class GroupRole:
    """The role that members of a group of the provider have in an organisation. Owners are never made by a group."""

    group: str
    role: Role
    organisation: str


@dataclass(frozen=True)
class OidcConfiguration:
    """An OpenID Connect provider, this installation as its client, and the roles that its groups give."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    """Empty: a public client, protected by PKCE alone."""
    origin: str
    """Origin of the web chat as browsers see it; redirect URIs begin with it."""
    scopes: str
    groups_claim: str
    group_roles: tuple[GroupRole, ...]
    label: str
    """Name of the provider on the sign-in button."""
    session_age: float
    """Seconds after which a session ends and the user signs in at the provider again."""

    def __post_init__(self) -> None:
        if not is_safe_url(self.issuer) or urlsplit(self.issuer).query or "#" in self.issuer:
            raise StartupError(
                "HEADRACE_OIDC_ISSUER must be an https:// URL without a query (http:// on loopback only)"
            )
        if not _ORIGIN.fullmatch(self.origin) or not is_safe_url(self.origin):
            raise StartupError(
                "HEADRACE_PUBLIC_URL must be the chat's origin, https://HOST[:PORT], to sign in with OIDC"
            )
        if not self.client_id:
            raise StartupError("HEADRACE_OIDC_CLIENT_ID is missing")
        if "openid" not in self.scopes.split():
            raise StartupError("HEADRACE_OIDC_SCOPES must contain openid")

    @property
    def redirect_uri(self) -> str:
        """The redirect URI of this installation, which must be registered at the provider exactly so."""
        return self.origin + CALLBACK_PATH

    def allows(self, url: str) -> bool:
        """Return whether requests may go to the endpoint `url`: https, or http on loopback if the issuer is there."""
        return is_safe_url(url) and (urlsplit(url).scheme == "https" or urlsplit(self.issuer).scheme == "http")


def is_safe_url(url: str) -> bool:
    """Return whether a URL is https, or http on the loopback interface, and contains no user name."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or re.search(r"[\s\\]", url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)


def parse_group_roles(text: str, default_organisation: str) -> tuple[GroupRole, ...]:
    """Parse the setting that maps groups to roles: a JSON list of `{"group": …, "role": …, "organisation": …}`.

    An entry without an organisation gets `default_organisation`.

    Raises:
        StartupError: it is malformed, or gives a role that groups can't give.
    """
    try:
        rows = json.loads(text or "[]")
        if not isinstance(rows, list) or len(rows) > MAX_GROUP_ROLES:
            raise ValueError(f"must be a list of at most {MAX_GROUP_ROLES} objects")
        return tuple(_group_role(row, default_organisation) for row in rows)
    except (ValueError, RecursionError) as error:
        raise StartupError(f"HEADRACE_OIDC_GROUP_ROLES: {error}") from error


def _group_role(row: object, default_organisation: str) -> GroupRole:
    if not isinstance(row, Mapping) or not row.keys() <= {"group", "role", "organisation"}:
        raise ValueError('each entry is {"group": ..., "role": ..., "organisation": ...}')
    group, organisation = row.get("group"), row.get("organisation", default_organisation)
    if not isinstance(group, str) or not group or not isinstance(organisation, str) or not organisation:
        raise ValueError("group and organisation must be texts")
    role = Role(str(row.get("role")))
    if role is Role.OWNER:
        raise ValueError("a group can't give the role owner: owners are invited")
    return GroupRole(group, role, organisation)
