"""Reads the web chat's settings (sessions, sign-up, storage limit, mail, identity provider), once at start-up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from auth_billing.people.throttle import PER_MINUTE


class ChatSettings(BaseSettings):
    """Settings of the web chat (`HEADRACE_…`), which the gateway process reads beside its own."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    session_signing_keys: str = Field(
        "",
        repr=False,
        description="Signing keys of browser sessions as ID:SECRET, at most two, separated by a comma; the first "
        "signs; the same in all gateways; by default one key is generated in the home directory",
    )
    chat_storage_mib: int = Field(
        1024,
        ge=1,
        le=2**30,
        description="MiB of conversations, messages and files that one person of the chat may store, imports included",
    )
    open_sign_up: bool = Field(
        False, description="Whether people may sign up uninvited, each with a new organisation without credit"
    )
    sign_ins_per_minute: int = Field(
        PER_MINUTE, ge=1, le=100_000, description="Sign-in attempts per account and per address, over all gateways"
    )
    console_url: str = Field(
        "",
        pattern=r"^(https?://\S+)?$",
        description="URL of the RabbitMQ console, shown to administrators; empty: not shown",
    )
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^\s/?#@]+)?$",
        description="Origin of the chat as its users see it, such as https://chat.example.org; links in mails "
        "begin with it; required with HEADRACE_SMTP_HOST and HEADRACE_OIDC_ISSUER",
    )
    smtp_host: str = Field(
        "", description="SMTP server that takes mails with password reset links; empty: none are sent (docs/people.md)"
    )
    smtp_port: int = Field(587, ge=1, le=65535, description="Port of the SMTP server")
    smtp_tls: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="Encryption of the connection to the SMTP server: starttls, tls (from the beginning, port 465), or "
        "none, which allows no password",
    )
    smtp_user: str = Field("", description="User name at the SMTP server; empty: no authentication")
    smtp_password_file: str = Field("", description="File with the password of that user")
    smtp_sender: str = Field(
        "",
        description="Address that mails are sent from, such as headrace@example.org; required with HEADRACE_SMTP_HOST",
    )


class OidcSettings(BaseSettings):
    """Settings of sign-in at an OpenID Connect provider (`HEADRACE_OIDC_…`). Without an issuer there is none."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    oidc_issuer: str = Field("", description="Issuer URL of the OpenID Connect provider; empty: no such sign-in")
    oidc_client_id: str = Field("", description="Client id of this installation at the provider")
    oidc_client_secret_file: str = Field(
        "", description="File with the client's secret; empty: a public client (PKCE only)"
    )
    oidc_scopes: str = Field(
        "openid profile email",
        description="Scopes to request; add offline_access where the provider gives refresh tokens only with it",
    )
    oidc_groups_claim: str = Field(
        "groups", min_length=1, description="Claim of the ID token or of user information that lists a person's groups"
    )
    oidc_group_roles: str = Field(
        "",
        description='Roles by group, as JSON: [{"group": "staff", "role": "member", "organisation": "org-..."}]; '
        "role: admin, member or viewer; organisation: by default the operator's",
    )
    oidc_label: str = Field(
        "single sign-on", min_length=1, max_length=60, description="Name of the provider on the sign-in button"
    )
    oidc_password_sign_in: bool = Field(
        True, description="Whether members may sign in with a password too; owners always may"
    )
    oidc_session_hours: int = Field(
        8, ge=1, le=168, description="Hours after which a session ends and the person signs in at the provider again"
    )
    oidc_membership_days: int = Field(
        30, ge=1, le=3650, description="Days without a sign-in after which a membership that a group gave ends"
    )
