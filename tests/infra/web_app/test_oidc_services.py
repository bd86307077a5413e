"""Sign-in at a real OpenID Connect provider over the real store, as `headrace gateway` is configured for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from auth_billing.access.roles import Role
from auth_billing.development_account import ORGANISATION
from chat_ui.settings import OidcSettings
from infra.web_app.oidc_services import oidc_configuration
from runtime.lifecycle import StartupError
from tests.chat_ui.test_oidc import ALICE
from tests.chat_ui.test_served_chat import platform
from tests.oidc.provider_process import CLIENT_ID, CLIENT_SECRET, ProviderProcess

ORIGIN = "https://chat.example"
ROLES = '[{"group": "staff", "role": "member"}]'


def settings(**changes: Any) -> OidcSettings:
    return OidcSettings(oidc_issuer="https://issuer.example", oidc_client_id="headrace", **changes)


def test_without_an_issuer_there_is_no_provider() -> None:
    assert oidc_configuration(OidcSettings(), "") is None


def test_the_configuration_has_the_secret_and_the_roles(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret\n")
    configuration = oidc_configuration(
        settings(oidc_client_secret_file=str(tmp_path / "secret"), oidc_group_roles=ROLES), ORIGIN
    )
    assert configuration is not None
    assert configuration.client_secret == "the secret"
    assert "the secret" not in repr(configuration)
    assert [(each.role, each.organisation) for each in configuration.group_roles] == [(Role.MEMBER, ORGANISATION)]


@pytest.mark.parametrize("content", [None, "", b"\xff"])
def test_an_unusable_secret_file_is_refused(tmp_path: Path, content: str | bytes | None) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(StartupError, match="HEADRACE_OIDC_CLIENT_SECRET_FILE"):
        oidc_configuration(settings(oidc_client_secret_file=str(file)), ORIGIN)


@pytest.mark.store
@pytest.mark.timeout(120)
async def test_a_person_signs_in_and_is_checked_over_the_real_store(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = ProviderProcess(ORIGIN)
    provider.start()
    provider.account("alice", **ALICE)
    (tmp_path / "secret").write_text(CLIENT_SECRET)
    for name, value in {
        "PUBLIC_URL": ORIGIN,
        "OIDC_ISSUER": provider.issuer,
        "OIDC_CLIENT_ID": CLIENT_ID,
        "OIDC_CLIENT_SECRET_FILE": str(tmp_path / "secret"),
        "OIDC_GROUP_ROLES": ROLES,
    }.items():
        monkeypatch.setenv(f"HEADRACE_{name}", value)
    monkeypatch.setattr("auth_billing.people.oidc.oidc_sign_in.CHECK_INTERVAL", 0.0)
    try:
        async with platform(database_url, tmp_path / "home") as served:
            for _ in range(2):
                browser = served.browser()
                url = (await browser.send("POST", "/oidc/sign-in", {})).json()["url"]
                back = urlsplit(await provider.authorise(url, "alice"))
                response = await browser.get(f"/oidc/callback?{back.query}")
                assert (response.status_code, response.headers["location"]) == (303, "/")
                me = (await browser.get("/me")).json()
                assert (me["role"], me["by_provider"], me["organisation"]["id"]) == ("member", True, ORGANISATION)
                replayed = await browser.get(f"/oidc/callback?{back.query}")
                assert replayed.headers["location"] == "/sign-in#problem=sign_in_expired"
            for _ in range(2):  # the second time with the successor of the refresh token
                assert (await browser.send("POST", "/session/refresh")).status_code == 204
            provider.account("alice", **ALICE | {"groups": []})
            assert (await browser.send("POST", "/session/refresh")).status_code == 401
            assert (await browser.get("/me")).status_code == 401
    finally:
        provider.stop()
