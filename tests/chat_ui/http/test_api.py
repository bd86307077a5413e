"""Accounts and sessions of the chat API: sign-up, sign-in, refresh, CSRF protection, administration."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from auth_billing.people.organisation_records import Organisation
from auth_billing.people.refresh_tokens import new_token
from auth_billing.people.sessions import CACHE_TTL, GRACE_PERIOD
from auth_billing.people.throttle import PER_MINUTE
from chat_ui.http import audit_events
from chat_ui.http.access_control import public, unguarded_routes
from chat_ui.http.api import create_api
from tests.chat_ui.browser_client import HTTP, HTTPS, Browser
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.fakes.sessions import ORGANISATION, PASSWORD, PeopleFixture


class Scene:
    """A gateway's chat, and users with browsers."""

    def __init__(self) -> None:
        self.people = PeopleFixture()
        self.audit = ListAuditLogStore()
        self.chats = ChatHouse()
        self.app = self.gateway()

    def gateway(self, *, open_sign_up: bool = False) -> FastAPI:
        access = self.people.process(open_sign_up=open_sign_up)
        return create_api(self.chats.chat(access, self.audit))

    async def browser(self, role: Role, origin: str = HTTPS) -> Browser:
        """Return the browser of a signed-in user with this role and an own network address."""
        browser = Browser(self.app, origin, f"10.1.{len(self.people.users.users)}.1")
        assert (await browser.sign_up(await self.people.invite(role), role.value)).status_code == 200
        return browser

    @property
    def events(self) -> list[str]:
        return [entry.event.value for entry in self.audit.entries]


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.people.passwords.close()


def error_of(response: Any) -> str:
    """Return the code of an error response, and require its JSON form and `no-store`."""
    assert response.status_code >= 400
    error = response.json()["error"]
    assert list(response.json()) == ["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert response.headers["cache-control"] == "no-store"
    return str(error["code"])


async def test_the_launchers_link_signs_the_local_owner_in_once(scene: Scene) -> None:
    await scene.people.invite(Role.MEMBER)
    invitations = scene.people.process().invitations
    browser = Browser(scene.app)
    first = await browser.send("POST", "/start", {"invitation": await invitations.invite_first_owner(ORGANISATION)})
    assert (first.status_code, first.json()["role"]) == (200, "owner")
    assert (await browser.get("/me")).json() == first.json()
    again = await browser.send("POST", "/start", {"invitation": await invitations.invite_first_owner(ORGANISATION)})
    assert again.json()["user"] == first.json()["user"]
    assert scene.events == ["user.added", "login.succeeded", "login.succeeded"]


async def test_invalid_start_links_are_refused(scene: Scene) -> None:
    invitations = scene.people.process().invitations
    used, late = [await invitations.invite_first_owner(ORGANISATION) for _ in range(2)]
    stranger = Browser(scene.app, address="10.9.0.1")
    others = [await scene.people.invite(role) for role in (Role.ADMIN, Role.MEMBER)]
    for token in ("", "x" * 500, used, *others):
        assert error_of(await stranger.send("POST", "/start", {"invitation": token})) == "invitation_void"
    elsewhere = await stranger.send("POST", "/start", {"invitation": late}, origin="https://evil.example")
    assert error_of(elsewhere) == "cross_site"
    assert error_of(await stranger.send("POST", "/start", {"invitation": None})) == "invalid_value"
    await scene.browser(Role.OWNER)
    assert error_of(await stranger.send("POST", "/start", {"invitation": late})) == "invitation_void"


async def test_the_local_owner_can_not_sign_in_by_password(scene: Scene) -> None:
    await scene.people.invite(Role.MEMBER)
    invitations = scene.people.process().invitations
    browser = Browser(scene.app)
    me = await browser.send("POST", "/start", {"invitation": await invitations.invite_first_owner(ORGANISATION)})
    email = me.json()["user"]["email"]
    for password in ("", "nobody's", PASSWORD):
        answer = await browser.send("POST", "/session", {"email": email, "password": password})
        assert error_of(answer) == "invalid_credentials"


@pytest.mark.parametrize("email", ["owner@{}.localhost", "OWNER@{}.LocalHost", "owner@{}.ｌocalhoſt", "x@a.localhost"])
async def test_the_local_owners_address_is_refused_at_sign_up(scene: Scene, email: str) -> None:
    address = email.format(ORGANISATION)
    body = {"email": address, "name": "Owner", "password": PASSWORD}
    member = {**body, "invitation": await scene.people.invite(Role.MEMBER)}
    founder = {**body, "organisation": "Eve's"}
    app = scene.gateway(open_sign_up=True)
    for number, wish in enumerate((member, founder)):
        refused = await Browser(app, address=f"10.9.1.{number}").send("POST", "/sign-up", wish)
        assert error_of(refused) == "invalid_value"
        assert refused.json()["error"]["param"] == "email"
    token = await scene.people.process().invitations.invite_first_owner(ORGANISATION)
    me = await Browser(app).send("POST", "/start", {"invitation": token})
    assert me.json()["user"]["email"] == f"owner@{ORGANISATION}.localhost"
    assert error_of(await Browser(app, address="10.9.1.9").send("POST", "/session", body)) == "invalid_credentials"


async def test_sign_up_by_invitation(scene: Scene) -> None:
    token = await scene.people.invite(Role.ADMIN)
    browser = Browser(scene.app)
    shown = await browser.get(f"/invitations/{token}")
    assert {**shown.json(), "expires_at": 0} == {
        "organisation": "Acme & Söhne",
        "role": "admin",
        "email": None,
        "expires_at": 0,
    }
    signed_up = await browser.sign_up(token, "ada")
    me = (await browser.get("/me")).json()
    assert signed_up.json() == me
    assert me == {
        "user": {"id": me["user"]["id"], "email": "ada@example.org", "name": "ada"},
        "organisation": {"id": ORGANISATION, "name": "Acme & Söhne"},
        "role": "admin",
        "project": f"proj_{ORGANISATION}",
        "projects": [{"id": f"proj_{ORGANISATION}", "name": "Default"}],
        "operator": True,
        "by_provider": False,
    }
    assert scene.events == ["user.added", "invite.accepted"]
    assert error_of(await Browser(scene.app).sign_up(token, "eve")) == "invitation_void"
    assert error_of(await browser.get(f"/invitations/{token}")) == "invitation_void"


async def test_cookies_over_https_have_the_host_prefix_and_are_http_only(scene: Scene) -> None:
    response = await Browser(scene.app).sign_up(await scene.people.invite(Role.MEMBER), "ada")
    cookies = {cookie.partition("=")[0]: cookie for cookie in response.headers.get_list("set-cookie")}
    assert list(cookies) == ["__Host-headrace-access", "__Host-headrace-refresh", "__Host-headrace-csrf"]
    for name, cookie in cookies.items():
        attributes = set(cookie.lower().split("; ")[1:])
        assert {"secure", "path=/"} <= attributes
        assert not any(each.startswith("domain") for each in attributes)
        assert ("httponly" in attributes) == ("csrf" not in name)
        assert ("samesite=strict" if "csrf" in name else "samesite=lax") in attributes
        assert any(each.startswith("max-age=") for each in attributes)
    assert PASSWORD not in response.text


async def test_cookies_over_plain_http_have_other_names(scene: Scene) -> None:
    browser = await scene.browser(Role.MEMBER, HTTP)
    assert set(browser.cookies) == {"headrace-access", "headrace-refresh", "headrace-csrf"}
    assert (await browser.get("/me")).status_code == 200
    secure = Browser(scene.app, HTTPS)
    secure.take(browser.cookies)  # set by an attacker on the network
    assert error_of(await secure.get("/me")) == "not_signed_in"


async def test_signing_in_and_out(scene: Scene) -> None:
    await scene.browser(Role.MEMBER)
    browser = Browser(scene.app)
    assert error_of(await browser.get("/me")) == "not_signed_in"
    assert (await browser.sign_in("member")).json()["role"] == "member"
    stolen = browser.cookies
    assert (await browser.send("DELETE", "/session")).status_code == 204
    assert browser.cookies == {}
    thief = Browser(scene.app)
    thief.take(stolen)
    assert error_of(await thief.get("/me")) == "not_signed_in"
    assert scene.events[2:] == ["login.succeeded", "logout.succeeded"]


async def test_signing_out_everywhere(scene: Scene) -> None:
    laptop = await scene.browser(Role.MEMBER)
    phone = Browser(scene.app)
    await phone.sign_in("member")
    assert (await phone.send("DELETE", "/sessions")).status_code == 204
    scene.people.clock.now += CACHE_TTL
    assert error_of(await laptop.get("/me")) == "not_signed_in"
    assert error_of(await laptop.send("POST", "/session/refresh")) == "not_signed_in"
    assert laptop.cookies == {}


async def test_a_reused_refresh_token_ends_the_session(scene: Scene) -> None:
    browser = await scene.browser(Role.MEMBER)
    thief = Browser(scene.app)
    thief.take(browser.cookies)
    before = browser.cookies
    assert (await browser.send("POST", "/session/refresh")).status_code == 204
    assert browser.cookies["__Host-headrace-refresh"] != before["__Host-headrace-refresh"]
    assert (await browser.get("/me")).status_code == 200
    scene.people.clock.now += GRACE_PERIOD + 1
    assert error_of(await thief.send("POST", "/session/refresh")) == "not_signed_in"
    scene.people.clock.now += CACHE_TTL
    assert error_of(await browser.get("/me")) == "not_signed_in"


async def test_two_tabs_may_refresh_concurrently(scene: Scene) -> None:
    browser, other = await scene.browser(Role.MEMBER), Browser(scene.app)
    other.take(browser.cookies)
    for tab in (browser, other):
        assert (await tab.send("POST", "/session/refresh")).status_code == 204
        assert (await tab.get("/me")).status_code == 200
    assert browser.cookies["__Host-headrace-refresh"] == other.cookies["__Host-headrace-refresh"]


async def test_changing_the_password_ends_other_sessions(scene: Scene) -> None:
    browser, phone = await scene.browser(Role.MEMBER), Browser(scene.app)
    await phone.sign_in("member")
    wrong = {"old_password": "wrong", "password": "another password"}
    assert error_of(await browser.send("POST", "/password", wrong)) == "invalid_credentials"
    short = {"old_password": PASSWORD, "password": "short"}
    assert (await browser.send("POST", "/password", short)).json()["error"]["param"] == "password"
    right = {"old_password": PASSWORD, "password": "another password"}
    assert (await browser.send("POST", "/password", right)).status_code == 200
    scene.people.clock.now += CACHE_TTL
    assert (await browser.get("/me")).status_code == 200
    assert error_of(await phone.get("/me")) == "not_signed_in"
    assert (await phone.sign_in("member", "another password")).status_code == 200
    assert "password.changed" in scene.events


async def test_an_unknown_address_and_a_wrong_password_get_the_same_response(scene: Scene) -> None:
    await scene.browser(Role.MEMBER)
    answers = []
    for name, password in (("member", "wrong password"), ("nobody", PASSWORD), ("member", "x" * 50_000), ("x", "")):
        response = await Browser(scene.app).sign_in(name, password)
        answers.append((response.status_code, response.content, dict(response.headers)))
    assert answers[0][0] == 401
    assert all(answer == answers[0] for answer in answers)


async def test_too_many_sign_in_attempts_get_a_retry_after(scene: Scene) -> None:
    browser = Browser(scene.app)
    answers = [await browser.sign_in(f"user-{number}", "one password") for number in range(PER_MINUTE + 5)]
    assert [answer.status_code for answer in answers] == [401] * PER_MINUTE + [429] * 5
    assert error_of(answers[-1]) == "too_many_sign_ins"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60


async def test_only_administrators_invite(scene: Scene) -> None:
    admin, member = await scene.browser(Role.ADMIN), await scene.browser(Role.MEMBER)
    for role in ("owner", "member"):
        assert error_of(await member.send("POST", "/invitations", {"role": role})) == "not_permitted"
    assert error_of(await admin.send("POST", "/invitations", {"role": "owner"})) == "not_permitted"
    made = await admin.send("POST", "/invitations", {"role": "viewer", "email": "bob@example.org"})
    assert made.status_code == 201
    token = made.json()["token"]
    listed = await admin.get("/invitations")
    assert token not in listed.text
    assert [each["status"] for each in listed.json()["invitations"] if each["id"] == made.json()["id"]] == ["pending"]
    revoked = await admin.send("DELETE", f"/invitations/{made.json()['id']}")
    assert revoked.json()["status"] == "revoked"
    assert error_of(await Browser(scene.app).sign_up(token, "bob")) == "invitation_void"
    for call in (member.get("/invitations"), member.get("/people")):
        assert error_of(await call) == "not_permitted"
    assert scene.events[-2:] == ["invite.sent", "invite.deleted"]


async def test_administrators_change_roles_and_remove_people(scene: Scene) -> None:
    owner, admin, member = [await scene.browser(role) for role in (Role.OWNER, Role.ADMIN, Role.MEMBER)]
    people = {each["role"]: each["id"] for each in (await admin.get("/people")).json()["people"]}
    assert set(people) == {"owner", "admin", "member"}
    promoted = await admin.send("PATCH", f"/people/{people['member']}", {"role": "admin"})
    assert promoted.json()["role"] == "admin"
    assert error_of(await admin.send("DELETE", f"/people/{people['owner']}")) == "not_permitted"
    assert error_of(await owner.send("DELETE", f"/people/{people['owner']}")) == "last_owner"
    assert (await owner.send("DELETE", f"/people/{people['member']}")).status_code == 204
    scene.people.clock.now += CACHE_TTL
    assert error_of(await member.get("/me")) == "not_signed_in"
    assert error_of(await member.sign_in("member")) == "invalid_credentials"
    assert scene.events[-2:] == ["user.updated", "user.deleted"]


async def test_people_and_invitations_of_other_organisations_are_not_found(scene: Scene) -> None:
    owner, stranger = await scene.browser(Role.OWNER), Browser(scene.app, address="10.7.7.7")
    await stranger.sign_up(await scene.people.invite(Role.OWNER, "org-other"), "stranger")
    me = (await owner.get("/me")).json()["user"]["id"]
    invitation = (await owner.send("POST", "/invitations", {"role": "member"})).json()["id"]
    for method, path, unknown, body in (
        ("PATCH", f"/people/{me}", "/people/user-unknown", {"role": "viewer"}),
        ("DELETE", f"/people/{me}", "/people/user-unknown", None),
        ("DELETE", f"/invitations/{invitation}", "/invitations/invite-unknown", None),
    ):
        foreign, missing = await stranger.send(method, path, body), await stranger.send(method, unknown, body)
        assert error_of(foreign) == "not_found"
        assert (foreign.status_code, foreign.content) == (missing.status_code, missing.content)
    assert me not in (await stranger.get("/people")).text
    assert (await owner.get("/me")).json()["role"] == "owner"


async def test_failed_sign_ins_at_an_account_have_one_entry_in_ten_minutes(scene: Scene) -> None:
    member = await scene.browser(Role.MEMBER)
    user = (await member.get("/me")).json()["user"]
    for _ in range(3):
        for email in (user["email"], "nobody@example.org", "x" * 1000):
            stranger = Browser(scene.app, address=f"10.7.0.{_}")
            answer = await stranger.send("POST", "/session", {"email": email, "password": "wrong password"})
            assert error_of(answer) == "invalid_credentials"
    await asyncio.gather(*audit_events._recording)
    failed = [each for each in scene.audit.entries if each.event is Event.LOGIN_FAILED]
    assert [(each.organisation, each.target, each.actor.user) for each in failed] == [(ORGANISATION, user["id"], "")]


async def test_open_sign_up_needs_the_operators_setting(scene: Scene) -> None:
    body = {"email": "ada@example.org", "name": "Ada", "password": PASSWORD, "organisation": "Ada's"}
    closed = Browser(scene.app)
    assert (await closed.get("/sign-up")).json() == {"open": False}
    assert error_of(await closed.send("POST", "/sign-up", body)) == "sign_up_closed"
    opened = Browser(scene.gateway(open_sign_up=True), address="10.0.0.2")
    assert (await opened.get("/sign-up")).json() == {"open": True}
    nameless = await opened.send("POST", "/sign-up", {**body, "organisation": ""})
    assert nameless.json()["error"]["param"] == "organisation"
    assert (await opened.send("POST", "/sign-up", body)).json()["role"] == "owner"
    assert error_of(await opened.send("POST", "/sign-up", {**body, "organisation": "2"})) == "email_taken"
    assert scene.events == ["user.added", "organization.created"]


async def test_founders_by_open_sign_up_do_not_see_the_installation(scene: Scene) -> None:
    operator = await scene.browser(Role.ADMIN)
    founder = Browser(scene.gateway(open_sign_up=True), address="10.0.0.2")
    body = {"email": "eve@example.org", "name": "Eve", "password": PASSWORD, "organisation": "Eve's"}
    assert (await founder.send("POST", "/sign-up", body)).json()["operator"] is False
    refused = await founder.get("/admin/workers")
    assert (refused.status_code, error_of(refused)) == (403, "not_permitted")
    assert (await operator.get("/me")).json()["operator"] is True
    assert (await operator.get("/admin/workers")).json()["workers"]
    assert (await (await scene.browser(Role.MEMBER)).get("/me")).json()["operator"] is False


GIFT = {"kind": "promo", "amount_nano": 5, "reference": "r-1", "reason": "a gift"}
RATES = {"default": {"input_nano": 3, "cached_input_nano": 2, "output_nano": 6}}


async def test_founders_change_neither_prices_nor_credit(scene: Scene) -> None:
    founder = Browser(scene.gateway(open_sign_up=True), address="10.0.0.2")
    body = {"email": "eve@example.org", "name": "Eve", "password": PASSWORD, "organisation": "Eve's"}
    own = (await founder.send("POST", "/sign-up", body)).json()["organisation"]["id"]
    for path, sent in (
        (f"/admin/organisations/{own}/credit", GIFT),
        ("/admin/prices", {"version": 0, "model": None, "rates": RATES}),
        ("/admin/organisations", None),
        (f"/admin/organisations/{own}/credit", None),
        ("/admin/installation-usage", None),
        ("/admin/installation-usage.csv", None),
    ):
        refused = await (founder.get(path) if sent is None else founder.send("POST", path, sent))
        assert (refused.status_code, error_of(refused)) == (403, "not_permitted"), path
    assert (await founder.get("/admin/credit")).json()["entries"] == []


async def test_an_operator_gives_and_takes_credit_and_changes_prices(scene: Scene) -> None:
    operator = await scene.browser(Role.ADMIN)
    stores = scene.chats.organisation
    await stores.accounts.ensure_organisation(Organisation(ORGANISATION, "Acme", 1.0))
    for _ in range(2):
        given = await operator.send("POST", f"/admin/organisations/{ORGANISATION}/credit", GIFT)
        assert (given.json()["available_nano"], len(given.json()["entries"])) == (5, 1)
    taken = {**GIFT, "kind": "withdrawal", "amount_nano": 6}
    refused = await operator.send("POST", f"/admin/organisations/{ORGANISATION}/credit", taken)
    assert (error_of(refused), "0.000000005 USD are available" in refused.text) == ("invalid_value", True)
    await operator.send("POST", f"/admin/organisations/{ORGANISATION}/credit", {**taken, "amount_nano": 2})
    entries = (await operator.get("/admin/credit")).json()["entries"]
    assert sorted((each["kind"], each["amount_nano"], each["reason"]) for each in entries) == [
        ("promo", 5, "a gift"),
        ("withdrawal", 2, "a gift"),
    ]
    before = (await operator.get("/admin/prices")).json()["version"]
    change = {"version": before, "model": "new", "rates": RATES}
    changed = (await operator.send("POST", "/admin/prices", change)).json()
    assert (changed["version"], changed["in_file"]) == (before + 1, False)
    assert (await operator.get("/admin/prices")).json() == changed
    assert error_of(await operator.send("POST", "/admin/prices", change)) == "price_conflict"
    changes = ("credit.granted", "credit.withdrawn", "prices.updated")
    assert tuple(each.event.value for each in stores.audit_log.entries) == changes
    page = (await operator.get("/admin/organisations")).json()
    assert (page["organisations"][0]["id"], page["next"]) == (ORGANISATION, None)


async def test_an_operator_who_was_demoted_changes_nothing(scene: Scene) -> None:
    operator = await scene.browser(Role.ADMIN)
    user = (await operator.get("/me")).json()["user"]["id"]
    await scene.people.memberships.set_role(ORGANISATION, user, Role.MEMBER)
    refused = await operator.send("POST", f"/admin/organisations/{ORGANISATION}/credit", GIFT)
    assert error_of(refused) == "not_permitted"


async def test_the_limits_of_person_project_and_organisation_are_shown(scene: Scene) -> None:
    member = await scene.browser(Role.MEMBER)
    limits = (await member.get("/usage")).json()["limits"]
    assert [each["subject"] for each in limits] == ["you", f"proj_{ORGANISATION}", "organisation"]


async def test_unknown_body_fields_are_ignored(scene: Scene) -> None:
    token = await scene.people.invite(Role.VIEWER)
    more = {"role": "owner", "balance": 10**9, "is_verified": True, "id": "user-1", "version": -1, "created": 0}
    body = {"email": "eve@example.org", "name": "<script>alert(1)</script>", "password": PASSWORD, **more}
    browser = Browser(scene.app)
    me = (await browser.send("POST", "/sign-up", {**body, "invitation": token})).json()
    assert me["role"] == "viewer"
    (user,) = scene.people.users.users.values()
    assert (user.id != "user-1", user.version, user.created) == (True, 0, scene.people.clock())
    assert user.name == "<script>alert(1)</script>"  # plain text: browsers do not render JSON as HTML
    shown = await browser.get("/me")
    assert shown.headers["content-type"] == "application/json"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in shown.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"email": "a@b\r\nBcc: c@d"}, "email"),
        ({"email": ["a@b"]}, "email"),
        ({"email": {"$gt": ""}}, "email"),
        ({"email": None}, "email"),
        ({"name": "x" * 10_000}, "name"),
        ({"name": 7}, "name"),
        ({"password": True}, "password"),
        ({"password": "short"}, "password"),
        ({"invitation": 1}, "invitation"),
    ],
)
async def test_invalid_fields_are_refused_by_name(scene: Scene, change: dict[str, Any], param: str) -> None:
    token = await scene.people.invite(Role.MEMBER)
    body = {"email": "ada@example.org", "name": "Ada", "password": PASSWORD, "invitation": token, **change}
    response = await Browser(scene.app).send("POST", "/sign-up", body)
    assert error_of(response) == "invalid_value"
    assert response.json()["error"]["param"] == param
    assert "Bcc" not in response.text
    assert "$gt" not in response.text
    assert scene.people.users.users == {}


EVIL: list[dict[str, str | None]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": None},
    {"origin": ""},
    {"origin": "http://chat.example"},
    {"origin": "https://chat.example.evil.example"},
    {"origin": "https://chat.example:444"},
    {"origin": "https://chat.example, https://evil.example"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
]


@pytest.mark.parametrize("headers", EVIL, ids=str)
async def test_cross_site_requests_are_refused(scene: Scene, headers: dict[str, str | None]) -> None:
    browser = await scene.browser(Role.OWNER)
    before = browser.cookies
    body = {"email": "owner@example.org", "password": PASSWORD}
    for method, path, sent in (
        ("POST", "/session", body),
        ("POST", "/session/refresh", None),
        ("DELETE", "/session", None),
        ("POST", "/invitations", {"role": "owner"}),
        ("POST", "/sign-up", {**body, "name": "x", "invitation": "x"}),
    ):
        response = await browser.send(method, path, sent, **headers)
        assert error_of(response) == "cross_site"
        assert "access-control-allow-origin" not in response.headers
    assert browser.cookies == before


@pytest.mark.parametrize("token", [None, "", "x", "é", "0" * 64])
async def test_requests_without_the_csrf_token_are_refused(scene: Scene, token: str | None) -> None:
    browser, other = await scene.browser(Role.OWNER), Browser(scene.app)
    await other.sign_in("owner")
    for wrong in (token, other.csrf):  # another session's token is invalid too
        for method, path in (("DELETE", "/session"), ("POST", "/session/refresh"), ("DELETE", "/sessions")):
            assert error_of(await browser.send(method, path, x_csrf_token=wrong)) == "cross_site"
    assert (await browser.get("/me")).status_code == 200


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_content_types_of_forms_are_refused(scene: Scene, content_type: str | None) -> None:
    browser = await scene.browser(Role.OWNER)
    body = json.dumps({"email": "owner@example.org", "password": PASSWORD}).encode()
    for method, path in (("POST", "/session"), ("DELETE", "/session"), ("POST", "/invitations")):
        response = await browser.send(method, path, body, content_type=content_type)
        assert error_of(response) == "unsupported_media_type"


async def test_there_are_no_cors_headers(scene: Scene) -> None:
    browser = await scene.browser(Role.OWNER)
    read = await browser.get("/me", origin="https://evil.example")
    preflight = await browser.client.options(
        "/api/session", headers={"origin": "https://evil.example", "access-control-request-method": "POST"}
    )
    assert error_of(preflight) == "method_not_allowed"
    for response in (read, preflight):
        assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "POST"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b"[]", "invalid_value"),
        (b"null", "invalid_value"),
        (b'"x"', "invalid_value"),
        (b'{"a": NaN}', "invalid_json"),
        (b'{"a": 1, "a": 2}', "invalid_json"),
        (b"[" * 10_000, "invalid_json"),
        (b'{"password": "\\ud800"}', "invalid_json"),
        (b"\xff", "invalid_json"),
        (b" " * 100_000, "request_too_large"),
    ],
)
async def test_invalid_bodies_are_refused(scene: Scene, method: str, body: bytes, code: str) -> None:
    browser = await scene.browser(Role.OWNER)
    path = {"DELETE": "/session", "PATCH": "/people/x", "POST": "/session"}[method]
    response = await browser.send(method, path, body)
    assert error_of(response) == code
    assert (await browser.get("/me")).status_code == 200


async def test_a_missing_body_is_refused(scene: Scene) -> None:
    browser = await scene.browser(Role.OWNER)
    for method, path in (("POST", "/session"), ("PATCH", "/people/x"), ("POST", "/invitations")):
        assert error_of(await browser.send(method, path)) == "invalid_json"
    for role in ("root", "", None, 1, ["owner"], {"$ne": 1}):
        response = await browser.send("POST", "/invitations", {"role": role})
        assert response.json()["error"]["param"] == "role"


async def test_tokens_in_the_wrong_place_are_refused(scene: Scene) -> None:
    browser, thief = await scene.browser(Role.OWNER), Browser(scene.app)
    access, refresh = (browser.cookies[f"__Host-headrace-{kind}"] for kind in ("access", "refresh"))
    thief.take({"__Host-headrace-access": refresh, "__Host-headrace-refresh": access})
    assert error_of(await thief.get("/me")) == "not_signed_in"
    assert error_of(await thief.send("POST", "/session/refresh", x_csrf_token=browser.csrf)) == "not_signed_in"
    assert error_of(await Browser(scene.app).get("/me", authorization=f"Bearer {access}")) == "not_signed_in"
    for text in ("", "x", "hr_live_x", "a.b.c", new_token("sess-x").text, "é", "x" * 20_000):
        forged = await Browser(scene.app).get("/me", cookie=f"__Host-headrace-access={text}")
        assert error_of(forged) == "not_signed_in"


async def test_without_the_store_requests_get_503(scene: Scene) -> None:
    browser = await scene.browser(Role.OWNER)
    scene.people.users.absence.away = True
    scene.people.clock.now += CACHE_TTL
    for response in (await browser.get("/me"), await browser.sign_in("owner")):
        assert (response.status_code, error_of(response)) == (503, "unavailable")
        assert response.headers["retry-after"] == "5"


async def test_unknown_paths_and_methods(scene: Scene) -> None:
    browser = await scene.browser(Role.OWNER)
    for path in ("", "/", "/nothing", "/people/x/y", "/session/", "/../me", "/docs", "/openapi.json"):
        assert (await browser.get(path)).status_code in (404, 405)
    assert error_of(await browser.get("/nothing")) == "unknown_url"
    assert error_of(await browser.get("/session")) == "method_not_allowed"
    for name in ("x-http-method-override", "x-method-override"):
        assert error_of(await browser.get("/session", **{name: "DELETE"})) == "method_not_allowed"


async def test_internal_errors_have_the_same_form(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = await scene.browser(Role.OWNER)

    async def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(scene.people.accounts, "projects", broken)
    response = await browser.get("/me")
    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in response.text


def test_every_route_is_guarded(scene: Scene) -> None:
    assert unguarded_routes(scene.app) == []

    @scene.app.get("/api/open")
    async def unguarded() -> None: ...

    @scene.app.post("/api/anybodys-page")
    @public
    async def callable_from_any_site() -> None: ...

    assert unguarded_routes(scene.app) == ["/api/open", "/api/anybodys-page"]


async def test_a_session_survives_an_unavailable_store(scene: Scene) -> None:
    browser = await scene.browser(Role.OWNER)
    scene.people.sessions.absence.away = True
    assert error_of(await browser.send("POST", "/session/refresh")) == "unavailable"
    scene.people.sessions.absence.away = False
    assert (await browser.send("POST", "/session/refresh")).status_code == 204
