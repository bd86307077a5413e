"""Browser sessions in MongoDB and in memory: one rotation of a token, final revocation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from auth_billing.people.session_records import SessionRecord
from tests.auth_billing.store.conftest import PeopleStores

SESSION = SessionRecord("sess-1", "user-ada", "org-1", 0, 1.0, 4e9, 1.0, b"0")


async def test_a_refresh_token_is_rotated_once(people: PeopleStores) -> None:
    await people.sessions.add(SESSION)
    assert await people.sessions.find("sess-1") == SESSION
    exchanges = [people.sessions.rotate("sess-1", b"0", b"new%d" % number, b"seal", 5.0) for number in range(8)]
    exchanged = await asyncio.gather(*exchanges)
    assert exchanged.count(True) == 1
    new = b"new%d" % exchanged.index(True)
    assert await people.sessions.find("sess-1") == replace(
        SESSION, current=new, previous=b"0", sealed=b"seal", used=5.0
    )


async def test_a_revoked_session_stays_revoked(people: PeopleStores) -> None:
    await people.sessions.add(SESSION)
    for now in (5.0, 6.0):
        await people.sessions.revoke("sess-1", now)
    assert not await people.sessions.rotate("sess-1", b"0", b"1", b"seal", 7.0)
    assert await people.sessions.find("sess-1") == replace(SESSION, revoked=5.0)
    assert await people.sessions.find("sess-2") is None


async def test_all_sessions_of_a_user_in_one_organisation_are_revoked(people: PeopleStores) -> None:
    others = [replace(SESSION, id="sess-3", user="user-eve"), replace(SESSION, id="sess-4", organisation="org-2")]
    mine = [replace(SESSION, revoked=4.0), replace(SESSION, id="sess-2")]
    for each in (*mine, *others):
        await people.sessions.add(each)
    await people.sessions.revoke_all("org-1", "user-ada", 5.0)
    found = [await people.sessions.find(f"sess-{number}") for number in range(1, 5)]
    assert found == [mine[0], replace(mine[1], revoked=5.0), *others]


async def test_one_gateway_claims_a_check_with_the_provider(people: PeopleStores) -> None:
    session = replace(SESSION, identity="identity-1", provider_token="sealed", checked=10.0)
    await people.sessions.add(session)
    claims = await asyncio.gather(*(people.sessions.set_checked("sess-1", 11.0, 20.0) for _ in range(6)))
    assert claims.count(True) == 1
    assert not await people.sessions.set_checked("sess-1", 20.0, 30.0)
    await people.sessions.keep_provider_token("sess-1", "next")
    assert await people.sessions.find("sess-1") == replace(session, provider_token="next", checked=20.0)
    await people.sessions.revoke("sess-1", 21.0)
    assert not await people.sessions.set_checked("sess-1", 100.0, 100.0)
