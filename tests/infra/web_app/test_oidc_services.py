"""Sign-in at a real OpenID Connect provider over the real store, as `headrace gateway` is configured for it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from auth_billing.access.roles import Role
from auth_billing.development_account import ORGANISATION
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.people.people_records import Membership, User
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.memberships import MongoMembershipStore
from auth_billing.store.users import MongoUserStore
from chat_ui.settings import OidcSettings
from infra.web_app import oidc_services
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
    for name in ("CHECK_INTERVAL", "CHECK_LEASE"):
        monkeypatch.setattr(f"auth_billing.people.oidc.oidc_sign_in.{name}", 0.0)
    try:
        async with platform(database_url, tmp_path / "home") as served:
            for _ in range(2):
                browser = served.browser()
                url = (await browser.send("POST", "/oidc/sign-in", {})).json()["url"]
                back = urlsplit(await provider.authorise(url, "alice"))
                response = await browser.get(f"/oidc/callback?{back.query}")
                assert (response.status_code, response.headers["location"]) == (303, "/")
                response = await browser.get("/me")
                assert response.status_code == 200, response.text
                me = response.json()
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


@pytest.mark.store
@pytest.mark.timeout(120)
async def test_a_membership_from_a_provider_that_was_taken_away_ends_with_its_keys(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_services, "CONFIRMATION_INTERVAL", 0.05)
    long_ago = time.time() - 31 * 86_400.0
    async with platform(database_url, tmp_path / "home") as served, asyncio.timeout(60):
        memberships, keys = MongoMembershipStore(served.connection), MongoApiKeyStore(served.connection)
        await MongoUserStore(served.connection).add(User("user-eve", "eve@example.org", "Eve", long_ago, ""))
        key = ApiKeyRecord("hr-eve", b"", "eve4", ORGANISATION, "proj-1", "Eve's", long_ago, user="user-eve")
        await keys.add(key)
        await memberships.add(
            Membership(ORGANISATION, "user-eve", Role.MEMBER, long_ago, "https://issuer.example", long_ago)
        )
        while await memberships.find(ORGANISATION, "user-eve") is not None:
            await asyncio.sleep(0.05)
        while (found := await keys.find("hr-eve")) is not None and found.revoked is None:
            await asyncio.sleep(0.05)
