"""The second factor over HTTP: enrolment, sign-in, reset by administrators, and the audit entries."""

from __future__ import annotations

import asyncio

import pyotp
import pytest

from auth_billing.access.roles import Role
from auth_billing.people.sessions import CACHE_TTL
from chat_ui.http import audit_events
from tests.chat_ui.browser_client import Browser
from tests.chat_ui.http.test_api import Scene, error_of, scene
from tests.fakes.sessions import PASSWORD

__all__ = ["scene"]


async def enrol(scene: Scene, browser: Browser) -> tuple[pyotp.TOTP, list[str]]:
    begun = await browser.send("POST", "/second-factor", {"password": PASSWORD})
    assert (begun.status_code, begun.headers["cache-control"]) == (201, "no-store")
    assert begun.json()["qr_code"].startswith("data:image/svg+xml")
    app = pyotp.TOTP(begun.json()["secret"])
    confirmed = await browser.send("POST", "/second-factor/confirm", {"code": app.at(int(scene.people.clock()))})
    assert confirmed.status_code == 200
    scene.people.clock.now += 30  # a newer code, and access tokens that are not from the future
    return app, confirmed.json()["codes"]


async def test_sign_in_asks_for_the_code_after_the_password(scene: Scene) -> None:
    member = await scene.browser(Role.MEMBER)
    assert (await member.get("/second-factor")).json() == {"enabled": False, "recovery_codes_left": 0}
    wrong = await member.send("POST", "/second-factor", {"password": "wrong password"})
    assert error_of(wrong) == "invalid_credentials"
    app, recovery = await enrol(scene, member)
    assert (await member.get("/second-factor")).json() == {"enabled": True, "recovery_codes_left": 10}

    other = Browser(scene.app, address="10.7.7.7")
    asked = await other.sign_in("member")
    assert (asked.status_code, list(asked.json()), other.cookies) == (200, ["challenge"], {})
    assert error_of(await other.get("/me")) == "not_signed_in"
    body = {"challenge": asked.json()["challenge"], "code": "000000x"}
    assert error_of(await other.send("POST", "/session/second-factor", body)) == "invalid_code"
    assert scene.events[-1] == "login.failed"
    body["code"] = app.at(int(scene.people.clock()))
    signed_in = await other.send("POST", "/session/second-factor", body)
    assert signed_in.json()["user"]["email"] == "member@example.org"
    assert scene.events[-1] == "login.succeeded"
    assert (await other.get("/me")).status_code == 200

    body = {"password": PASSWORD, "code": recovery[0]}
    assert (await other.send("DELETE", "/second-factor", body)).status_code == 204
    assert "user" in (await Browser(scene.app, address="10.7.7.8").sign_in("member")).json()
    assert [each for each in scene.events if "factor" in each] == ["second_factor.enabled", "second_factor.disabled"]
    assert app.secret not in repr(scene.audit.entries)


async def test_enabling_it_ends_the_other_sessions(scene: Scene) -> None:
    member, other = await scene.browser(Role.MEMBER), Browser(scene.app, address="10.7.7.7")
    assert (await other.sign_in("member")).status_code == 200
    before = member.cookies
    await enrol(scene, member)
    assert (await member.get("/me")).status_code == 200
    scene.people.clock.now += CACHE_TTL + 1
    assert error_of(await other.get("/me")) == "not_signed_in"
    assert error_of(await other.send("POST", "/session/refresh")) == "not_signed_in"
    assert (await member.send("POST", "/session/refresh")).status_code == 204
    stolen = Browser(scene.app, address="10.7.7.8")
    stolen.take(before)
    assert error_of(await stolen.get("/me")) == "not_signed_in"


WRONG_PASSWORD, WRONG_CODE = "wrong password", "000000x"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/second-factor", {"password": WRONG_PASSWORD}),
        ("POST", "/second-factor/confirm", {"code": WRONG_CODE}),
        ("DELETE", "/second-factor", {"password": WRONG_PASSWORD, "code": WRONG_CODE}),
        ("DELETE", "/second-factor", {"password": PASSWORD, "code": WRONG_CODE}),
        ("POST", "/password", {"old_password": WRONG_PASSWORD, "password": "another long password"}),
    ],
)
async def test_a_wrong_password_or_code_in_a_session_is_in_the_audit_log(
    scene: Scene, method: str, path: str, body: dict[str, str]
) -> None:
    member = await scene.browser(Role.MEMBER)
    user = (await member.get("/me")).json()["user"]
    assert error_of(await member.send(method, path, body)) in ("invalid_credentials", "invalid_code")
    await asyncio.gather(*audit_events._recording)
    entry = scene.audit.entries[-1]
    assert (entry.event.value, entry.target, entry.details["email"]) == ("login.failed", user["id"], user["email"])
    assert not any(wrong in repr(entry) for wrong in (WRONG_PASSWORD, WRONG_CODE))


async def test_an_administrator_resets_a_members_second_factor(scene: Scene) -> None:
    admin, member = await scene.browser(Role.ADMIN), await scene.browser(Role.MEMBER)
    await scene.browser(Role.VIEWER)
    await enrol(scene, member)
    await enrol(scene, admin)
    users = {name: (await each.get("/me")).json()["user"]["id"] for name, each in (("m", member), ("a", admin))}
    assert error_of(await member.send("DELETE", f"/people/{users['a']}/second-factor")) == "not_permitted"
    assert error_of(await admin.send("DELETE", f"/people/{users['a']}/second-factor")) == "not_permitted"
    listed = (await admin.get("/people")).json()["people"]
    assert {each["role"]: each["second_factor"] for each in listed} == {"admin": True, "member": True, "viewer": False}
    assert (await admin.send("DELETE", f"/people/{users['m']}/second-factor")).status_code == 204
    assert error_of(await admin.send("DELETE", f"/people/{users['m']}/second-factor")) == "not_found"
    assert "user" in (await Browser(scene.app, address="10.7.7.8").sign_in("member")).json()
    entry = scene.audit.entries[-2]
    assert (entry.event.value, entry.actor.email, entry.details["by"]) == (
        "second_factor.disabled",
        "admin@example.org",
        "administrator",
    )
