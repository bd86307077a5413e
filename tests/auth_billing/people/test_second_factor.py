"""TOTP and recovery codes: RFC 6238's values, each code once, few tries, no secret in the store."""

from __future__ import annotations

import base64
import urllib.parse
from dataclasses import dataclass

import pyotp
import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import InvalidCode, NoSuchRecord, NotPermitted, TooManySignIns
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.people_records import User
from auth_billing.people.second_factor import PERIOD, RECOVERY_CODES
from auth_billing.people.throttle import CODES_PER_HOUR
from tests.fakes.sessions import PeopleFixture


@dataclass
class App:
    """An authenticator app with the secret of one user."""

    people: PeopleFixture
    user: User
    secret: str
    recovery: list[str]

    def code(self, steps: int = 0) -> str:
        return pyotp.TOTP(self.secret).at(int(self.people.clock()) + steps * PERIOD)


async def enrolled(people: PeopleFixture, access: BrowserAccess, role: Role = Role.MEMBER) -> App:
    """Sign up a user with a second factor, a minute and a full bucket of tries ago."""
    user = (await people.sign_up_member(access, role)).session.user
    enrolment = await access.second_factor.enrol(user)
    app = App(people, user, enrolment.secret, [])
    app.recovery = await access.second_factor.confirm(user, app.code())
    people.clock.now += 3600
    return app


@pytest.fixture
async def app(people: PeopleFixture, access: BrowserAccess) -> App:
    return await enrolled(people, access)


def test_the_library_computes_the_values_of_rfc_6238() -> None:
    totp = pyotp.TOTP(base64.b32encode(b"12345678901234567890").decode(), digits=8)
    times = {59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 20000000000: "65353130"}
    assert {at: totp.at(at) for at in times} == times


async def test_enrolment_needs_a_code_of_the_app(people: PeopleFixture, access: BrowserAccess) -> None:
    user = (await people.sign_up_member(access, Role.MEMBER)).session.user
    factor = access.second_factor
    with pytest.raises(InvalidCode):
        await factor.confirm(user, "123456")
    abandoned, enrolment = [await factor.enrol(user) for _ in range(2)]
    assert not await factor.required(user.id)
    uri = urllib.parse.urlsplit(enrolment.uri)
    assert (uri.scheme, uri.netloc) == ("otpauth", "totp")
    assert urllib.parse.parse_qs(uri.query) == {"secret": [enrolment.secret], "issuer": ["Headrace"]}
    assert enrolment.qr_code().startswith("data:image/svg+xml")
    assert len(base64.b32decode(enrolment.secret)) == 20
    with pytest.raises(InvalidCode):
        await factor.confirm(user, App(people, user, abandoned.secret, []).code())
    codes = await factor.confirm(user, App(people, user, enrolment.secret, []).code())
    assert len(set(codes)) == RECOVERY_CODES
    assert await factor.required(user.id)
    with pytest.raises(NotPermitted):
        await factor.enrol(user)
    stored = repr(vars(people.factors.factors[user.id]))
    assert enrolment.secret not in stored
    assert all(code.replace("-", "") not in stored for code in codes)


async def test_a_code_counts_once_and_older_ones_no_more(app: App, access: BrowserAccess) -> None:
    older, code = app.code(-1), app.code()
    spaced = f"{code[:3]} {code[3:]}"
    await access.second_factor.verify(app.user.id, spaced)
    for used in (code, older):
        with pytest.raises(InvalidCode):
            await access.second_factor.verify(app.user.id, used)
    app.people.clock.now += PERIOD
    await access.second_factor.verify(app.user.id, app.code())


@pytest.mark.parametrize(("steps", "accepted"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
async def test_clocks_may_differ_by_one_step(app: App, access: BrowserAccess, steps: int, accepted: bool) -> None:
    code = app.code(steps)
    if not accepted and code in [app.code(step) for step in (-1, 0, 1)]:
        pytest.skip("the code of another step happens to be the same")
    try:
        await access.second_factor.verify(app.user.id, code)
        assert accepted
    except InvalidCode:
        assert not accepted


async def test_a_recovery_code_counts_once(app: App, access: BrowserAccess) -> None:
    await access.second_factor.verify(app.user.id, app.recovery[0].upper().replace("-", " "))
    assert await access.second_factor.recovery_codes_left(app.user.id) == RECOVERY_CODES - 1
    with pytest.raises(InvalidCode):
        await access.second_factor.verify(app.user.id, app.recovery[0])


@pytest.mark.parametrize("code", ["", "x", "12345", "1234567", "１２３４５６", "é\ud800", "0" * 100_000, "-" * 100])
async def test_malformed_codes_are_refused(app: App, access: BrowserAccess, code: str) -> None:
    with pytest.raises(InvalidCode):
        await access.second_factor.verify(app.user.id, code)


async def test_ten_tries_an_hour_over_all_gateways(app: App, people: PeopleFixture) -> None:
    for _ in range(CODES_PER_HOUR):
        with pytest.raises(InvalidCode):
            await people.process().second_factor.verify(app.user.id, "000 00x")
    with pytest.raises(TooManySignIns):
        await people.process().second_factor.verify(app.user.id, app.code())


async def test_another_persons_codes_are_wrong(people: PeopleFixture, access: BrowserAccess, app: App) -> None:
    other = await enrolled(people, access, Role.VIEWER)
    for code in (other.code(), other.recovery[0]):
        with pytest.raises(InvalidCode):
            await access.second_factor.verify(app.user.id, code)


async def test_administrators_reset_only_accounts_below(people: PeopleFixture, access: BrowserAccess, app: App) -> None:
    admin = (await people.sign_up_member(access, Role.ADMIN)).session.actor
    owner = await enrolled(people, access, Role.OWNER)
    assert await access.second_factor.reset_member(admin, app.user.id) == app.user
    assert not await access.second_factor.required(app.user.id)
    with pytest.raises(NoSuchRecord):
        await access.second_factor.reset_member(admin, app.user.id)
    with pytest.raises(NotPermitted):
        await access.second_factor.reset_member(admin, owner.user.id)
    assert await access.second_factor.required(owner.user.id)
