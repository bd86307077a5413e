"""Sessions: refresh tokens are single-use, reuse ends the session, and ended sessions are refused within seconds."""

from __future__ import annotations

import asyncio
import datetime as real_datetime
from collections.abc import Iterator
from typing import Any

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import InvalidSession, StoreUnavailable
from auth_billing.people import refresh_tokens
from auth_billing.people.access_tokens import SECONDS_VALID
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.refresh_tokens import parse
from auth_billing.people.sessions import CACHE_TTL, GRACE_PERIOD, IDLE_TIMEOUT, MAX_SESSION_AGE, SignedIn
from tests.fakes.sessions import ORGANISATION, PASSWORD, PeopleFixture


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch) -> Iterator[PeopleFixture]:
    people = PeopleFixture()

    class Datetime(real_datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(people.clock(), tz)

    monkeypatch.setattr("jwt.api_jwt.datetime", Datetime)  # pyjwt knows no clock but the machine's
    yield people
    people.passwords.close()


@pytest.fixture
async def ada(people: PeopleFixture, access: BrowserAccess) -> SignedIn:
    return await people.sign_up_member(access, Role.OWNER)


async def dead(access: BrowserAccess, *tokens: str) -> None:
    for token in tokens:
        with pytest.raises(InvalidSession):
            await access.sessions.authenticate(token)


async def test_an_access_token_authenticates_its_session(access: BrowserAccess, ada: SignedIn) -> None:
    session = await access.sessions.authenticate(ada.access)
    assert session == ada.session
    assert (session.user.email, session.role, session.project) == (
        "owner@example.org",
        Role.OWNER,
        f"proj_{ORGANISATION}",
    )
    assert session.actor == Actor(ORGANISATION, session.user.id, Role.OWNER)


async def test_the_store_sees_no_token(people: PeopleFixture, ada: SignedIn, access: BrowserAccess) -> None:
    again = await access.sessions.refresh(parse(ada.refresh))
    (record,) = people.sessions.sessions.values()
    for token in (ada.refresh, again.refresh):
        assert parse(token).secret not in vars(record).values()


async def test_an_access_token_lasts_15_minutes(people: PeopleFixture, access: BrowserAccess, ada: SignedIn) -> None:
    people.clock.now += SECONDS_VALID + 29
    await access.sessions.authenticate(ada.access)
    people.clock.now += 1
    await dead(access, ada.access)


async def test_a_refresh_token_is_exchanged_for_another(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn
) -> None:
    people.clock.now += SECONDS_VALID
    second = await access.sessions.refresh(parse(ada.refresh))
    assert second.refresh != ada.refresh
    assert (await access.sessions.authenticate(second.access)).user == ada.session.user
    third = await access.sessions.refresh(parse(second.refresh))
    assert len({ada.refresh, second.refresh, third.refresh}) == 3


async def test_reusing_a_refresh_token_ends_the_session(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn
) -> None:
    second = await access.sessions.refresh(parse(ada.refresh))
    people.clock.now += GRACE_PERIOD + 1
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(ada.refresh))
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(second.refresh))
    await dead(access, ada.access, second.access)


async def test_the_grace_period_covers_only_the_previous_token(access: BrowserAccess, ada: SignedIn) -> None:
    second = await access.sessions.refresh(parse(ada.refresh))
    third = await access.sessions.refresh(parse(second.refresh))
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(ada.refresh))
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(third.refresh))


async def test_two_tabs_get_the_same_successor(people: PeopleFixture, ada: SignedIn) -> None:
    tabs = [people.process().sessions.refresh(parse(ada.refresh)) for _ in range(4)]
    refreshed = {signed_in.refresh for signed_in in await asyncio.gather(*tabs)}
    assert len(refreshed) == 1
    people.clock.now += GRACE_PERIOD
    assert (await people.process().sessions.refresh(parse(ada.refresh))).refresh in refreshed  # its answer had got lost
    await people.process().sessions.refresh(parse(refreshed.pop()))


@pytest.mark.parametrize("other", ["", ".", "x", "sess-1.x", ".AAAA", "é", "\0", "x" * 1_000_000, "a.b.c"])
async def test_malformed_refresh_tokens_are_refused(access: BrowserAccess, ada: SignedIn, other: str) -> None:
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(other))
    assert await access.sessions.refresh(parse(ada.refresh))


async def test_a_wrong_secret_ends_the_session(access: BrowserAccess, ada: SignedIn) -> None:
    """It can't be distinguished from an old, used token."""
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(refresh_tokens.new_token(ada.session.id))
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(ada.refresh))


async def test_access_and_refresh_tokens_are_not_interchangeable(access: BrowserAccess, ada: SignedIn) -> None:
    await dead(access, ada.refresh)
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(ada.access))


async def test_a_session_ends_after_a_week_of_inactivity(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn
) -> None:
    people.clock.now += IDLE_TIMEOUT - 1
    second = await access.sessions.refresh(parse(ada.refresh))
    people.clock.now += IDLE_TIMEOUT
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(second.refresh))


async def test_a_session_ends_after_thirty_days_of_use(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn
) -> None:
    token, began = ada.refresh, people.clock()
    while people.clock() + IDLE_TIMEOUT / 2 < began + MAX_SESSION_AGE:
        people.clock.now += IDLE_TIMEOUT / 2
        token = (await access.sessions.refresh(parse(token))).refresh
    people.clock.now = began + MAX_SESSION_AGE
    with pytest.raises(InvalidSession):
        await access.sessions.refresh(parse(token))


async def test_sign_out_is_immediate_locally_and_within_seconds_elsewhere(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn
) -> None:
    elsewhere = people.process()
    phone = await access.sign_in.sign_in("owner@example.org", PASSWORD, "10.9.9.9")
    await elsewhere.sessions.authenticate(ada.access)
    await access.sessions.end(ada.session)
    await dead(access, ada.access)
    people.clock.now += CACHE_TTL
    await dead(elsewhere, ada.access)
    with pytest.raises(InvalidSession):
        await elsewhere.sessions.refresh(parse(ada.refresh))
    assert (await elsewhere.sessions.authenticate(phone.access)).user == ada.session.user


async def everywhere(access: BrowserAccess, ada: SignedIn) -> None:
    await access.sessions.end_all(ada.session)


async def password(access: BrowserAccess, ada: SignedIn) -> None:
    signed_in = await access.sign_in.change_password(ada.session, PASSWORD, "another password", "10.1.1.1")
    assert await access.sessions.authenticate(signed_in.access)


async def removal(access: BrowserAccess, ada: SignedIn) -> None:
    user = ada.session.user.id
    await access.members.join(ORGANISATION, "user-other", Role.OWNER, 1.0)
    await access.members.remove(Actor(ORGANISATION, "user-other", Role.OWNER), user)


@pytest.mark.parametrize("end", [everywhere, password, removal])
async def test_all_sessions_of_a_user_end_within_seconds_at_each_gateway(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn, end: Any
) -> None:
    elsewhere = people.process()
    phone = await access.sign_in.sign_in("owner@example.org", PASSWORD, "10.9.9.9")
    for signed_in in (ada, phone):
        await elsewhere.sessions.authenticate(signed_in.access)
    await end(access, ada)
    people.clock.now += CACHE_TTL
    for signed_in in (ada, phone):
        await dead(elsewhere, signed_in.access)
        await dead(access, signed_in.access)
        with pytest.raises(InvalidSession):
            await elsewhere.sessions.refresh(parse(signed_in.refresh))


async def test_a_role_change_takes_effect_within_seconds(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn
) -> None:
    viewer = await people.sign_up_member(access, Role.VIEWER)
    await access.sessions.authenticate(viewer.access)
    await access.members.change_role(ada.session.actor, viewer.session.user.id, Role.ADMIN)
    people.clock.now += CACHE_TTL
    assert (await access.sessions.authenticate(viewer.access)).role is Role.ADMIN


async def test_while_the_store_is_away_cached_sessions_are_accepted(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn
) -> None:
    await access.sessions.authenticate(ada.access)
    people.sessions.absence.away = True
    await access.sessions.authenticate(ada.access)
    people.clock.now += CACHE_TTL
    with pytest.raises(StoreUnavailable):
        await access.sessions.authenticate(ada.access)


async def test_all_other_sessions_end_and_a_new_one_takes_the_place_of_this(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn
) -> None:
    other = await access.sessions.begin(ada.session.user, ORGANISATION)
    renewed = await access.sessions.end_others(ada.session)
    people.clock.now += CACHE_TTL + 1
    await dead(access, ada.access, other.access)
    for ended in (ada, other):
        with pytest.raises(InvalidSession):
            await access.sessions.refresh(parse(ended.refresh))
    assert (await access.sessions.authenticate(renewed.access)).id not in (ada.session.id, other.session.id)
    await access.sessions.refresh(parse(renewed.refresh))
    with pytest.raises(InvalidSession):
        await access.sessions.end_others(ada.session)


async def test_no_session_outlives_a_concurrent_end_of_all(
    people: PeopleFixture, access: BrowserAccess, ada: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_sessions = people.users.end_sessions

    async def twice(user: str) -> None:
        await end_sessions(user)
        await end_sessions(user)

    monkeypatch.setattr(people.users, "end_sessions", twice)
    with pytest.raises(InvalidSession):
        await access.sessions.end_others(ada.session)
