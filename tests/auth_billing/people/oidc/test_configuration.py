"""Configuration of a provider: what is refused at start-up."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Role
from auth_billing.people.oidc.configuration import GroupRole, OidcConfiguration, is_safe_url, parse_group_roles
from runtime.lifecycle import StartupError


def configuration(**changes: str) -> OidcConfiguration:
    """Return a valid configuration with some fields changed."""
    fields = {"issuer": "https://issuer.example/realm", "origin": "https://chat.example", "client_id": "headrace"}
    fields |= {
        "client_secret": "secret",
        "scopes": "openid email",
        "groups_claim": "groups",
        "label": "Acme",
        **changes,
    }
    return OidcConfiguration(**fields, group_roles=(), session_age=3600.0)


@pytest.mark.parametrize(
    ("field", "value", "setting"),
    [
        ("issuer", "http://issuer.example", "HEADRACE_OIDC_ISSUER"),
        ("issuer", "https://issuer.example?x=1", "HEADRACE_OIDC_ISSUER"),
        ("issuer", "https://user@issuer.example", "HEADRACE_OIDC_ISSUER"),
        ("origin", "", "HEADRACE_PUBLIC_URL"),
        ("origin", "http://chat.example", "HEADRACE_PUBLIC_URL"),
        ("origin", "https://chat.example/path", "HEADRACE_PUBLIC_URL"),
        ("client_id", "", "HEADRACE_OIDC_CLIENT_ID"),
        ("scopes", "email", "HEADRACE_OIDC_SCOPES"),
    ],
)
def test_an_unsafe_setting_is_refused_by_name(field: str, value: str, setting: str) -> None:
    with pytest.raises(StartupError, match=setting):
        configuration(**{field: value})


def test_endpoints_are_https_unless_the_issuer_is_local() -> None:
    assert configuration().redirect_uri == "https://chat.example/api/oidc/callback"
    assert not configuration().allows("http://127.0.0.1/token")
    assert configuration(issuer="http://127.0.0.1:9000").allows("http://127.0.0.1:9000/token")
    for url in (
        "ftp://a",
        "https://",
        "https://a b",
        "https://a\\b",
        "https://a:port",
        "http://127.0.0.1.evil.example",
    ):
        assert not is_safe_url(url)


def test_group_roles_are_read_and_have_a_default_organisation() -> None:
    text = '[{"group": "cn=staff,ou=acme", "role": "member"}, {"group": "b", "role": "admin", "organisation": "org-2"}]'
    assert parse_group_roles(text, "org-1") == (
        GroupRole("cn=staff,ou=acme", Role.MEMBER, "org-1"),
        GroupRole("b", Role.ADMIN, "org-2"),
    )
    assert parse_group_roles("", "org-1") == ()


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1]",
        "[",
        "[" * 100_000,
        '[{"group": "a", "role": "owner"}]',
        '[{"group": "a", "role": "root"}]',
        '[{"group": "", "role": "member"}]',
        '[{"group": "a", "role": "member", "organization": "misspelt"}]',
    ],
)
def test_other_group_roles_are_refused(text: str) -> None:
    with pytest.raises(StartupError, match="HEADRACE_OIDC_GROUP_ROLES"):
        parse_group_roles(text, "org-1")
