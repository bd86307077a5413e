"""Sign-in at a real OpenID Connect provider through the chat API: roles, identities, attacks, and faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pyotp
import pytest
from fastapi import FastAPI

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from auth_billing.people.oidc import provider as provider_module
from auth_billing.people.oidc.configuration import GroupRole, OidcConfiguration
from auth_billing.people.oidc.oidc_sign_in import CHECK_INTERVAL, OidcSignIn
from auth_billing.people.oidc.provider import OidcProvider
from auth_billing.people.oidc.transactions import LIFETIME
from auth_billing.people.organisation_records import Organisation
from auth_billing.people.sessions import CACHE_TTL
from chat_ui.http import audit_events
from chat_ui.http.api import create_api
from tests.chat_ui.browser_client import HTTPS, Browser
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.fakes.sessions import ORGANISATION, PASSWORD, PEPPER, PeopleFixture
from tests.oidc.provider_process import CLIENT_ID, CLIENT_SECRET, ProviderProcess

pytestmark = pytest.mark.timeout(120)

OTHER = "org-other"
ALICE = {"email": "alice@example.org", "email_verified": True, "name": "Alice", "groups": ["staff"]}


class OidcScene:
    """A gateway's chat with one provider, over stores in memory."""

    def __init__(self, provider: ProviderProcess) -> None:
        self.provider = provider
        self.people, self.audit, self.chats = PeopleFixture(), ListAuditLogStore(), ChatHouse()
        self.identities = self.people.identities
        self.configuration = OidcConfiguration(
            issuer=provider.issuer,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            origin=HTTPS,
            scopes="openid profile email",
            groups_claim="groups",
            group_roles=(
                GroupRole("staff", Role.MEMBER, ORGANISATION),
                GroupRole("leads", Role.ADMIN, ORGANISATION),
                GroupRole("partners", Role.VIEWER, OTHER),
            ),
            label="Acme",
            session_age=8 * 3600.0,
        )
        self.clients: list[OidcProvider] = []
        self.browsers = 0
        self.app = self.gateway()

    def gateway(self, *, password_sign_in: bool = True, **changes: Any) -> FastAPI:
        access = self.people.process(password_sign_in=password_sign_in)
        configuration = replace(self.configuration, **changes)
        client = OidcProvider(configuration)
        self.clients.append(client)
        self.oidc = OidcSignIn(
            configuration, client, access, self.people.users, self.identities, secret=PEPPER, clock=self.people.clock
        )
        return create_api(replace(self.chats.chat(access, self.audit), oidc=self.oidc))

    async def organisations(self) -> None:
        for each in (ORGANISATION, OTHER):
            await self.people.accounts.ensure_organisation(Organisation(each, each, 1.0))

    def browser(self, app: FastAPI | None = None) -> Browser:
        """Return a browser with an own network address."""
        self.browsers += 1
        return Browser(app or self.app, address=f"10.2.0.{self.browsers}")

    async def begin(self, browser: Browser, return_to: str = "/") -> str:
        """Begin a sign-in; return the provider's URL."""
        response = await browser.send("POST", "/oidc/sign-in", {"return_to": return_to})
        assert response.status_code == 200, response.text
        return str(response.json()["url"])

    async def sign_in(self, browser: Browser, subject: str = "alice", return_to: str = "/") -> str:
        """Sign in at the provider; return where the browser is sent to afterwards."""
        return await self.come_back(
            browser, await self.provider.authorise(await self.begin(browser, return_to), subject)
        )

    async def come_back(self, browser: Browser, url: str, **changes: str | None) -> str:
        """Follow the provider's redirect, with some parameters changed; return where the browser is sent to."""
        sent = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        query = {name: value for name, value in {**sent, **changes}.items() if value is not None}
        response = await browser.get(f"/oidc/callback?{urlencode(query)}")
        assert response.status_code == 303
        assert response.headers["cache-control"] == "no-store"
        return response.headers["location"]

    async def refresh(self, browser: Browser) -> int:
        """Refresh the session as if the last check was longer ago than `CHECK_INTERVAL`."""
        sessions = self.people.sessions.sessions
        for each in sessions.values():
            sessions[each.id] = replace(each, checked=each.checked - CHECK_INTERVAL - 1)
        return (await browser.send("POST", "/session/refresh")).status_code

    async def me(self, browser: Browser) -> Any:
        response = await browser.get("/me")
        return response.json() if response.status_code == 200 else response.status_code

    @property
    def events(self) -> list[tuple[Event, Any]]:
        return [(entry.event, entry.details.get("role")) for entry in self.audit.entries]


@pytest.fixture(scope="module")
def running() -> Iterator[ProviderProcess]:
    provider = ProviderProcess(HTTPS)
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture
def provider(running: ProviderProcess) -> ProviderProcess:
    """The provider, with Alice as a member of the staff."""
    running.account("alice", **ALICE)
    return running


@pytest.fixture
def own_provider() -> Iterator[ProviderProcess]:
    """A provider that the test may stop."""
    provider = ProviderProcess(HTTPS)
    provider.start()
    provider.account("alice", **ALICE)
    yield provider
    provider.stop()


@asynccontextmanager
async def scene_with(provider: ProviderProcess) -> AsyncIterator[OidcScene]:
    scene = OidcScene(provider)
    await scene.organisations()
    yield scene
    for client in scene.clients:
        await client.close()
    scene.people.passwords.close()


@pytest.fixture
async def scene(provider: ProviderProcess) -> AsyncIterator[OidcScene]:
    async with scene_with(provider) as scene:
        yield scene


@pytest.fixture
async def own_scene(own_provider: ProviderProcess) -> AsyncIterator[OidcScene]:
    async with scene_with(own_provider) as scene:
        yield scene


# --- Sign-in ----------------------------------------------------------------------------------------


async def test_a_person_of_a_mapped_group_signs_in_and_keeps_one_account(scene: OidcScene) -> None:
    browser = scene.browser()
    options = (await browser.get("/oidc")).json()
    assert options == {"label": "Acme", "password_sign_in": True}
    assert await scene.sign_in(browser, return_to="/c/conv-1") == "/c/conv-1"
    me = await scene.me(browser)
    assert (me["user"]["email"], me["user"]["name"], me["role"]) == ("alice@example.org", "Alice", "member")
    assert me["by_provider"] is True
    assert scene.events == [(Event.USER_ADDED, "member"), (Event.LOGIN_SUCCEEDED, None)]
    assert not [name for name in browser.cookies if name.endswith("oidc")]

    again = scene.browser()
    assert await scene.sign_in(again) == "/"
    assert (await scene.me(again))["user"] == me["user"]
    assert len(scene.people.users.users) == 1


async def test_the_request_to_the_provider_has_pkce_state_and_nonce(scene: OidcScene) -> None:
    browser = scene.browser()
    response = await browser.send("POST", "/oidc/sign-in", {})
    (cookie,) = response.headers.get_list("set-cookie")
    assert cookie.startswith("__Host-headrace-oidc=")
    for attribute in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", f"Max-Age={LIFETIME}"):
        assert attribute in cookie
    query = {name: values[0] for name, values in parse_qs(urlsplit(response.json()["url"]).query).items()}
    assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
    assert query["redirect_uri"] == "https://chat.example/api/oidc/callback"
    assert min(len(query[name]) for name in ("state", "nonce", "code_challenge")) >= 43


async def test_claims_come_from_user_information_if_the_id_token_lacks_them() -> None:
    provider = ProviderProcess(HTTPS, lean_id_token=True)
    provider.start()
    provider.account("alice", **ALICE)
    try:
        async with scene_with(provider) as scene:
            browser = scene.browser()
            await scene.sign_in(browser)
            assert (await scene.me(browser))["user"]["email"] == "alice@example.org"
            provider.account("alice", **ALICE | {"groups": ["leads"]})
            assert await scene.refresh(browser) == 204
            assert (await scene.me(browser))["role"] == "admin"
    finally:
        provider.stop()


async def test_without_a_mapped_group_no_account_is_made(scene: OidcScene) -> None:
    scene.provider.account("eve", **ALICE | {"groups": ["visitors"]})
    assert await scene.sign_in(scene.browser(), "eve") == "/sign-in#problem=no_group"
    assert not scene.people.users.users
    assert not scene.identities.identities


async def test_two_browsers_sign_in_at_once_as_one_new_person(scene: OidcScene) -> None:
    browsers = [scene.browser(), scene.browser()]
    assert await asyncio.gather(*map(scene.sign_in, browsers)) == ["/", "/"]
    first, second = [await scene.me(each) for each in browsers]
    assert first["user"] == second["user"]
    assert len(scene.people.users.users) == 1


@pytest.mark.parametrize(
    "place", ["https://evil.example/", "//evil.example", "/\\evil.example", "/a\nb", "javascript:1"]
)
async def test_the_browser_stays_on_this_site_afterwards(scene: OidcScene, place: str) -> None:
    assert await scene.sign_in(scene.browser(), return_to=place) == "/"


# --- Identity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("verified", [False, None, "true", 1])
async def test_an_unverified_address_is_not_used(scene: OidcScene, verified: object) -> None:
    scene.provider.account("alice", **ALICE | {"email_verified": verified})
    browser = scene.browser()
    await scene.sign_in(browser)
    email = (await scene.me(browser))["user"]["email"]
    assert email.endswith("@oidc.localhost")


async def test_an_account_with_the_same_address_is_not_taken_over(scene: OidcScene) -> None:
    local = scene.browser()
    assert (await local.sign_up(await scene.people.invite(Role.ADMIN), "alice")).status_code == 200
    assert await scene.sign_in(scene.browser()) == "/sign-in#problem=account_exists"
    assert not scene.identities.identities
    assert len(scene.people.users.users) == 1


async def test_a_former_members_address_does_not_lock_a_person_out(scene: OidcScene) -> None:
    local = scene.browser()
    await local.sign_up(await scene.people.invite(Role.MEMBER), "alice")
    former = (await scene.me(local))["user"]["id"]
    await scene.people.memberships.remove(ORGANISATION, former)
    browser = scene.browser()
    assert await scene.sign_in(browser) == "/"
    user = (await scene.me(browser))["user"]
    assert user["id"] != former
    assert user["email"].endswith("@oidc.localhost")


async def connect(scene: OidcScene, browser: Browser, password: str = PASSWORD) -> httpx.Response:
    return await browser.send("POST", "/oidc/connection", {"password": password})


async def test_a_signed_in_person_connects_the_own_account_with_the_password(scene: OidcScene) -> None:
    local = scene.browser()
    await local.sign_up(await scene.people.invite(Role.OWNER), "alice")
    assert (await connect(scene, local, "wrong password")).status_code == 401
    await asyncio.gather(*audit_events._recording)
    assert scene.events[-1] == (Event.LOGIN_FAILED, None)
    url = (await connect(scene, local)).json()["url"]
    assert await scene.come_back(local, await scene.provider.authorise(url, "alice")) == "/account"
    assert scene.events[-1] == (Event.IDENTITY_CONNECTED, None)

    browser = scene.browser()
    assert await scene.sign_in(browser) == "/"
    me = await scene.me(browser)
    assert (me["user"], me["role"]) == ((await scene.me(local))["user"], "owner")
    # The membership is the invitation's: no group takes it, and the password stays usable.
    scene.provider.account("alice", **ALICE | {"groups": []})
    assert await scene.refresh(browser) == 204
    assert (await scene.browser().sign_in("alice")).status_code == 200


async def test_a_person_lists_and_disconnects_an_own_identity(scene: OidcScene) -> None:
    local, other = scene.browser(), scene.browser()
    await local.sign_up(await scene.people.invite(Role.MEMBER), "alice")
    await other.sign_up(await scene.people.invite(Role.MEMBER), "bob")
    await scene.come_back(local, await scene.provider.authorise((await connect(scene, local)).json()["url"], "alice"))
    by_provider = scene.browser()
    assert await scene.sign_in(by_provider) == "/"
    (identity,) = (await local.get("/oidc/identities")).json()["identities"]
    assert (identity["issuer"], identity["subject"]) == (scene.provider.issuer, "alice")
    assert (await other.get("/oidc/identities")).json() == {"identities": []}
    path = f"/oidc/identities/{identity['id']}"
    assert (await local.send("DELETE", path, {"password": "wrong password"})).status_code == 401
    assert (await other.send("DELETE", path, {"password": PASSWORD})).status_code == 404
    assert (await local.send("DELETE", path, {"password": PASSWORD})).status_code == 204
    assert scene.events[-1] == (Event.IDENTITY_DISCONNECTED, None)
    assert (await local.get("/oidc/identities")).json() == {"identities": []}
    scene.people.clock.now += CACHE_TTL + 1
    assert await scene.me(by_provider) == 401
    assert await scene.sign_in(scene.browser()) == "/sign-in#problem=account_exists"


async def test_a_person_whose_password_opens_no_session_keeps_the_identity(scene: OidcScene) -> None:
    local, browser = scene.browser(), scene.browser()
    await local.sign_up(await scene.people.invite(Role.MEMBER), "alice")
    await scene.come_back(local, await scene.provider.authorise((await connect(scene, local)).json()["url"], "alice"))
    browser.move_to(scene.gateway(password_sign_in=False))
    assert await scene.sign_in(browser) == "/"
    (identity,) = (await browser.get("/oidc/identities")).json()["identities"]
    refused = await browser.send("DELETE", f"/oidc/identities/{identity['id']}", {"password": PASSWORD})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_permitted")
    assert scene.identities.identities


async def test_a_person_of_the_provider_alone_keeps_the_identity(scene: OidcScene) -> None:
    browser = scene.browser()
    await scene.sign_in(browser)
    (identity,) = (await browser.get("/oidc/identities")).json()["identities"]
    refused = await browser.send("DELETE", f"/oidc/identities/{identity['id']}", {"password": PASSWORD})
    assert refused.status_code == 401  # there is no password
    assert scene.identities.identities


async def test_a_connection_needs_the_second_factor_of_the_account(scene: OidcScene) -> None:
    local = scene.browser()
    await local.sign_up(await scene.people.invite(Role.MEMBER), "alice")
    (user,) = scene.people.users.users.values()
    factors = scene.people.process().second_factor
    app = pyotp.TOTP((await factors.enrol(user)).secret)
    (recovery, *_) = await factors.confirm(user, app.at(int(scene.people.clock())))
    refused = await connect(scene, local)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_code")
    body = {"password": PASSWORD, "code": recovery}
    assert (await local.send("POST", "/oidc/connection", body)).status_code == 200


async def test_an_identity_is_connected_with_one_user_only(scene: OidcScene) -> None:
    await scene.sign_in(scene.browser())
    bob = scene.browser()
    await bob.sign_up(await scene.people.invite(Role.MEMBER), "bob")
    url = (await connect(scene, bob)).json()["url"]
    back = await scene.provider.authorise(url, "alice")
    assert await scene.come_back(bob, back) == "/sign-in#problem=already_connected"


async def test_a_connection_ends_in_the_session_that_began_it(scene: OidcScene) -> None:
    bob, eve = scene.browser(), scene.browser()
    await bob.sign_up(await scene.people.invite(Role.MEMBER), "bob")
    await eve.sign_up(await scene.people.invite(Role.MEMBER), "eve")
    back = await scene.provider.authorise((await connect(scene, bob)).json()["url"], "alice")
    eve.take({"__Host-headrace-oidc": bob.cookies["__Host-headrace-oidc"]})
    assert await scene.come_back(eve, back) == "/sign-in#problem=sign_in_expired"
    assert not scene.identities.identities


# --- Attacks ----------------------------------------------------------------------------------------


async def test_another_state_or_another_browser_is_refused(scene: OidcScene) -> None:
    browser = scene.browser()
    back = await scene.provider.authorise(await scene.begin(browser), "alice")
    assert await scene.come_back(scene.browser(), back) == "/sign-in#problem=sign_in_expired"
    assert await scene.come_back(browser, back, state="0" * 64) == "/sign-in#problem=sign_in_expired"
    assert await scene.me(browser) == 401


async def test_a_sign_in_is_completed_once(scene: OidcScene) -> None:
    browser = scene.browser()
    url = await scene.begin(browser)
    cookies = browser.cookies
    back = await scene.provider.authorise(url, "alice")
    assert await scene.come_back(browser, back) == "/"
    thief = scene.browser()
    thief.take(cookies)
    assert await scene.come_back(thief, back) == "/sign-in#problem=sign_in_expired"
    assert await scene.me(thief) == 401


async def test_a_cookie_is_good_for_one_code(scene: OidcScene) -> None:
    browser = scene.browser()
    url = await scene.begin(browser)
    cookies = browser.cookies
    first, second = [await scene.provider.authorise(url, "alice") for _ in range(2)]
    assert await scene.come_back(browser, first) == "/"
    browser.take(cookies)
    assert await scene.come_back(browser, second) == "/sign-in#problem=sign_in_expired"


async def test_a_code_of_another_sign_in_is_refused(scene: OidcScene) -> None:
    """PKCE binds the code to the browser that began the sign-in: a stolen code is worth nothing."""
    victim, thief = scene.browser(), scene.browser()
    stolen = await scene.provider.authorise(await scene.begin(victim), "alice")
    own = await scene.provider.authorise(await scene.begin(thief), "alice")
    code = parse_qs(urlsplit(stolen).query)["code"][0]
    assert await scene.come_back(thief, own, code=code) == "/sign-in#problem=sign_in_expired"


async def test_a_token_with_another_nonce_is_refused(scene: OidcScene) -> None:
    browser = scene.browser()
    url = await scene.begin(browser)
    nonce = parse_qs(urlsplit(url).query)["nonce"][0]
    back = await scene.provider.authorise(url.replace(nonce, "1" * 64), "alice")
    assert await scene.come_back(browser, back) == "/sign-in#problem=sign_in_invalid"
    assert await scene.me(browser) == 401


@pytest.mark.parametrize("issuer", ["https://evil.example", None])
async def test_the_answer_of_another_issuer_is_refused(scene: OidcScene, issuer: str | None) -> None:
    browser = scene.browser()
    back = await scene.provider.authorise(await scene.begin(browser), "alice")
    assert await scene.come_back(browser, back, iss=issuer) == "/sign-in#problem=sign_in_invalid"


async def test_a_sign_in_takes_ten_minutes_at_most(scene: OidcScene) -> None:
    browser = scene.browser()
    back = await scene.provider.authorise(await scene.begin(browser), "alice")
    scene.people.clock.now += LIFETIME + 1
    assert await scene.come_back(browser, back) == "/sign-in#problem=sign_in_expired"


async def test_a_refused_consent_is_told(scene: OidcScene) -> None:
    browser = scene.browser()
    state = parse_qs(urlsplit(await scene.begin(browser)).query)["state"][0]
    back = f"?state={state}&iss={scene.provider.issuer}&error=access_denied"
    assert await scene.come_back(browser, back) == "/sign-in#problem=sign_in_denied"


async def test_other_sites_can_not_begin_a_sign_in(scene: OidcScene) -> None:
    response = await scene.browser().send("POST", "/oidc/sign-in", {}, origin="https://evil.example")
    assert response.status_code == 403
    assert (await scene.browser().get("/oidc/sign-in")).status_code == 405


# --- Roles follow groups ----------------------------------------------------------------------------


async def test_roles_follow_groups_in_open_sessions_and_at_sign_in(scene: OidcScene) -> None:
    browser = scene.browser()
    await scene.sign_in(browser)
    scene.provider.account("alice", **ALICE | {"groups": ["staff", "leads", "partners"]})
    assert (await scene.me(browser))["role"] == "member"
    assert await scene.refresh(browser) == 204
    assert (await scene.me(browser))["role"] == "admin"
    assert {each.organisation for each in scene.people.memberships.memberships.values()} == {ORGANISATION, OTHER}

    scene.provider.account("alice", **ALICE)
    await scene.sign_in(scene.browser())
    scene.people.clock.now += CACHE_TTL + 1
    assert (await scene.me(browser))["role"] == "member"
    assert [each.organisation for each in scene.people.memberships.memberships.values()] == [ORGANISATION]
    changes = [each for each in scene.events if each[0] is not Event.LOGIN_SUCCEEDED]
    assert sorted(changes) == sorted(
        [
            (Event.USER_ADDED, "member"),
            (Event.USER_ADDED, "viewer"),
            (Event.USER_UPDATED, "admin"),
            (Event.USER_UPDATED, "member"),
            (Event.USER_DELETED, "viewer"),
        ]
    )


async def test_a_person_without_a_group_is_out_of_open_sessions(scene: OidcScene) -> None:
    first, second = scene.browser(), scene.browser()
    await scene.sign_in(first)
    await scene.sign_in(second)
    scene.provider.account("alice", **ALICE | {"groups": []})
    assert await scene.refresh(first) == 401
    assert [await scene.me(first), await scene.me(second)] == [401, 401]
    assert not scene.people.memberships.memberships
    assert [(each.organisation, bool(each.user)) for each in scene.people.ended_keys] == [(ORGANISATION, True)]
    assert scene.events[-1] == (Event.USER_DELETED, "member")
    assert await scene.sign_in(scene.browser()) == "/sign-in#problem=no_group"


async def test_a_person_without_a_group_is_out_at_sign_in(scene: OidcScene) -> None:
    browser = scene.browser()
    await scene.sign_in(browser)
    scene.provider.account("alice", **ALICE | {"groups": []})
    assert await scene.sign_in(scene.browser()) == "/sign-in#problem=no_group"
    scene.people.clock.now += CACHE_TTL + 1
    assert await scene.me(browser) == 401
    assert scene.events[-1] == (Event.USER_DELETED, "member")


async def test_a_person_who_is_removed_at_the_provider_is_out(own_scene: OidcScene) -> None:
    scene = own_scene
    browser = scene.browser()
    await scene.sign_in(browser)
    scene.provider.remove("alice")
    assert await scene.refresh(browser) == 401
    assert await scene.me(browser) == 401


async def test_a_session_ends_by_its_age(own_scene: OidcScene) -> None:
    scene = own_scene
    browser = scene.browser()
    await scene.sign_in(browser)
    scene.provider.stop()
    scene.people.clock.now += 8 * 3600 - 1
    assert await scene.refresh(browser) == 204
    scene.people.clock.now += 1
    assert await scene.refresh(browser) == 401


async def test_administrators_do_not_change_a_role_that_a_group_gives(scene: OidcScene) -> None:
    owner, browser = scene.browser(), scene.browser()
    await owner.sign_up(await scene.people.invite(Role.OWNER), "owner")
    await scene.sign_in(browser)
    user = (await scene.me(browser))["user"]["id"]
    response = await owner.send("PATCH", f"/people/{user}", {"role": "admin"})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "role_from_group")
    assert (await owner.send("DELETE", f"/people/{user}")).status_code == 204
    scene.people.clock.now += CACHE_TTL + 1
    assert await scene.me(browser) == 401


# --- Passwords beside it ----------------------------------------------------------------------------


async def test_no_password_opens_a_membership_that_a_group_gave(scene: OidcScene) -> None:
    browser = scene.browser()
    await scene.sign_in(browser)
    for password in ("unknown user", "", "!"):
        assert (await scene.browser().sign_in("alice", password)).status_code == 401
    user = next(iter(scene.people.users.users.values()))
    assert user.password == ""
    scene.people.users.users[user.id] = replace(user, password=await scene.people.passwords.hash(PASSWORD))
    response = await scene.browser().sign_in("alice")
    assert (response.status_code, response.json()["error"]["code"]) == (401, "password_sign_in_disabled")
    token = await scene.people.invite(Role.ADMIN)
    assert (await scene.browser().sign_up(token, "alice")).status_code == 401
    assert (await scene.me(browser))["role"] == "member"


async def test_only_owners_use_a_password_where_it_is_disabled(scene: OidcScene) -> None:
    for role in (Role.OWNER, Role.ADMIN):
        assert (await scene.browser().sign_up(await scene.people.invite(role), role.value)).status_code == 200
    app = scene.gateway(password_sign_in=False)
    assert (await scene.browser(app).get("/oidc")).json()["password_sign_in"] is False
    assert (await scene.browser(app).sign_in("owner")).status_code == 200
    refused = await scene.browser(app).sign_in("admin")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "password_sign_in_disabled")
    assert (await scene.browser(app).sign_in("admin", "wrong password")).json()["error"][
        "code"
    ] == "invalid_credentials"


# --- The provider -----------------------------------------------------------------------------------


async def test_signing_keys_are_fetched_again_after_a_rotation(
    own_scene: OidcScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = own_scene
    await scene.sign_in(scene.browser())
    scene.provider.stop()
    scene.provider.start()
    monkeypatch.setattr(provider_module, "RETRY_INTERVAL", 0.0)
    assert await scene.sign_in(scene.browser()) == "/"


async def test_without_the_provider_sign_in_fails_clearly_and_passwords_work(own_scene: OidcScene) -> None:
    scene = own_scene
    local = scene.browser()
    await local.sign_up(await scene.people.invite(Role.MEMBER), "bob")
    browser = scene.browser()
    back = await scene.provider.authorise(await scene.begin(browser), "alice")
    scene.provider.stop()
    assert await scene.come_back(browser, back) == "/sign-in#problem=provider_unavailable"
    response = await scene.browser(scene.gateway()).send("POST", "/oidc/sign-in", {})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "provider_unavailable")
    assert (await scene.browser().sign_in("bob")).status_code == 200


async def test_a_slow_provider_delays_nobody_else(own_scene: OidcScene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = own_scene
    monkeypatch.setattr(provider_module, "TIMEOUT", 1.0)
    scene.provider.delay(30_000)
    app = scene.gateway()
    local = scene.browser(app)
    begun = time.monotonic()
    waiting = [asyncio.create_task(scene.browser(app).send("POST", "/oidc/sign-in", {})) for _ in range(8)]
    await asyncio.sleep(0.1)
    assert (await local.sign_up(await scene.people.invite(Role.MEMBER), "bob")).status_code == 200
    assert not any(task.done() for task in waiting)
    assert {response.status_code for response in await asyncio.gather(*waiting)} == {503}
    assert time.monotonic() - begun < 4.0


async def test_sign_out_ends_the_session_here_and_leads_to_the_providers_page(scene: OidcScene) -> None:
    browser = scene.browser()
    await scene.sign_in(browser)
    response = await browser.send("POST", "/oidc/sign-out")
    url = urlsplit(response.json()["url"])
    assert f"{url.scheme}://{url.netloc}{url.path}" == f"{scene.provider.issuer}/session/end"
    assert parse_qs(url.query) == {"client_id": [CLIENT_ID], "post_logout_redirect_uri": [f"{HTTPS}/sign-in"]}
    assert await scene.me(browser) == 401


async def test_without_a_provider_there_is_no_such_sign_in(scene: OidcScene) -> None:
    app = create_api(scene.chats.chat(scene.people.process(), scene.audit))
    browser = scene.browser(app)
    assert (await browser.get("/oidc")).json() == {"label": None, "password_sign_in": True}
    assert (await browser.send("POST", "/oidc/sign-in", {})).status_code == 404
    assert (await browser.get("/oidc/callback?code=a&state=b")).status_code == 404
