"""Sign-in with a second factor: no session before the code, whichever way leads to one."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import (
    EmailTaken,
    InvalidCode,
    InvalidCredentials,
    InvalidSession,
    InvitationVoid,
    SecondFactorRequired,
    TooManySignIns,
)
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.second_factor_challenges import SECONDS_VALID
from auth_billing.people.second_factor_sign_in import WrongCode
from auth_billing.people.throttle import PER_MINUTE
from tests.auth_billing.people.test_second_factor import App, enrolled
from tests.fakes.sessions import ORGANISATION, PASSWORD, PeopleFixture, sign_up_input

EMAIL, ADDRESS = "member@example.org", "10.0.0.1"


@pytest.fixture
async def app(people: PeopleFixture, access: BrowserAccess) -> App:
    app = await enrolled(people, access)
    people.sessions.sessions.clear()
    return app


async def challenge(access: BrowserAccess, password: str = PASSWORD) -> str:
    with pytest.raises(SecondFactorRequired) as caught:
        await access.sign_in.sign_in(EMAIL, password, ADDRESS)
    return caught.value.challenge


async def test_the_code_opens_the_session(people: PeopleFixture, access: BrowserAccess, app: App) -> None:
    token = await challenge(access)
    with pytest.raises(WrongCode) as caught:
        await access.second_factor_sign_in.complete(token, "000000x", ADDRESS)
    assert (caught.value.challenge.user, caught.value.challenge.organisation) == (app.user.id, ORGANISATION)
    assert people.sessions.sessions == {}
    code = app.code()
    signed_in, _ = await people.process().second_factor_sign_in.complete(token, code, ADDRESS)
    assert signed_in.session.user == app.user
    with pytest.raises(InvalidCode):  # replayed
        await access.second_factor_sign_in.complete(token, code, ADDRESS)
    assert await access.second_factor_sign_in.complete(await challenge(access), app.recovery[3], ADDRESS)


async def test_a_wrong_password_reveals_no_second_factor(access: BrowserAccess, app: App) -> None:
    with pytest.raises(InvalidCredentials):
        await access.sign_in.sign_in(EMAIL, "wrong password", ADDRESS)


async def test_a_challenge_expires_and_ends_with_the_password(
    people: PeopleFixture, access: BrowserAccess, app: App
) -> None:
    old = await challenge(access)
    people.clock.now += SECONDS_VALID
    with pytest.raises(InvalidSession):
        await access.second_factor_sign_in.complete(old, app.code(), ADDRESS)
    before = await challenge(access)
    await access.password_reset.use(await access.reset_links.make(app.user), "another password", ADDRESS)
    with pytest.raises(InvalidSession):
        await access.second_factor_sign_in.complete(before, app.code(), ADDRESS)
    assert await challenge(access, "another password")  # a reset does not remove the second factor


async def test_completions_are_throttled_by_address(access: BrowserAccess) -> None:
    for _ in range(PER_MINUTE):
        with pytest.raises(InvalidSession):
            await access.second_factor_sign_in.complete("x", "000000", "10.0.9.1")
    with pytest.raises(TooManySignIns):
        await access.second_factor_sign_in.complete("x", "000000", "10.0.9.1")


async def test_an_invitation_is_accepted_with_the_code(people: PeopleFixture, access: BrowserAccess, app: App) -> None:
    token = await people.invite(Role.ADMIN, "org-other")
    with pytest.raises(SecondFactorRequired) as caught:
        await access.sign_up.accept_invitation(token, sign_up_input("member"))
    assert people.sessions.sessions == {}
    assert await people.memberships.find("org-other", app.user.id) is None  # a password alone does not join either
    signed_in, _ = await access.second_factor_sign_in.complete(caught.value.challenge, app.code(), ADDRESS)
    assert (signed_in.session.organisation, signed_in.session.role) == ("org-other", Role.ADMIN)
    app.people.clock.now += 60
    with pytest.raises(InvitationVoid):
        await access.second_factor_sign_in.complete(caught.value.challenge, app.code(), ADDRESS)


async def test_registering_does_not_avoid_the_code(people: PeopleFixture, app: App) -> None:
    await people.memberships.remove(ORGANISATION, app.user.id)
    with pytest.raises(EmailTaken):
        await people.process(open_sign_up=True).sign_up.register(sign_up_input("member"), "Mine")


async def test_changes_need_the_password_and_the_code(access: BrowserAccess, app: App) -> None:
    factors = access.second_factor_sign_in
    with pytest.raises(InvalidCredentials):
        await factors.disable(app.user, "wrong password", app.code(), ADDRESS)
    with pytest.raises(InvalidCode):
        await factors.disable(app.user, PASSWORD, "123", ADDRESS)
    with pytest.raises(InvalidCredentials):
        await factors.enrol(app.user, "wrong password", ADDRESS)
    assert await access.second_factor.required(app.user.id)
    await factors.disable(app.user, PASSWORD, app.code(), ADDRESS)
    assert await access.sign_in.sign_in(EMAIL, PASSWORD, "10.0.0.2")
    assert (await factors.enrol(app.user, PASSWORD, "10.0.0.2")).secret != app.secret
