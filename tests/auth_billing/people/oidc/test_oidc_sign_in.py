"""Sign-in with a provider that lies: tokens and user information of another subject.

What an honest provider does is tested with a real one in `tests/chat_ui/test_oidc.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from auth_billing.errors import InvalidSession, ProviderSignInRefused, StoreUnavailable
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.oidc import oidc_sign_in as oidc_sign_in_module
from auth_billing.people.oidc.configuration import GroupRole
from auth_billing.people.oidc.oidc_sign_in import CHECK_INTERVAL, CHECK_LEASE, Answer, OidcSignIn
from auth_billing.people.oidc.provider import Metadata, Tokens
from auth_billing.people.organisation_records import Organisation
from auth_billing.people.refresh_tokens import parse
from auth_billing.people.sessions import GRACE_PERIOD
from tests.auth_billing.people.oidc.test_configuration import configuration
from tests.auth_billing.people.oidc.test_id_tokens import CLAIMS, KEY, FakeProvider, signed
from tests.auth_billing.people.oidc.test_provider import DISCOVERY
from tests.fakes.people import DictIdentityStore
from tests.fakes.sessions import ORGANISATION, PASSWORD, PEPPER, PeopleFixture


class LyingProvider(FakeProvider):
    """A provider whose ID token and user information a test sets."""

    def __init__(self, people: PeopleFixture) -> None:
        super().__init__()
        self.people, self.nonce, self.subject = people, "", "alice"
        self.groups = ["staff"]
        self.information: dict[str, Any] = {}
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def metadata(self) -> Metadata:
        return Metadata(**DISCOVERY)

    async def exchange(self, code: str, verifier: str) -> Tokens:
        if self.meanwhile is not None:
            await self.meanwhile()
        now = int(self.people.clock())
        claims = {**CLAIMS, "sub": self.subject, "nonce": self.nonce, "iat": now, "exp": now + 300}
        return Tokens(signed({**claims, "groups": self.groups}, KEY), "access", "refresh")

    async def refresh(self, token: str) -> Tokens:
        return await self.exchange("", "")

    async def user_info(self, access_token: str) -> Mapping[str, Any]:
        return self.information


def oidc_sign_in(people: PeopleFixture, access: BrowserAccess, provider: LyingProvider) -> OidcSignIn:
    roles = (GroupRole("staff", Role.MEMBER, ORGANISATION),)
    lying: Any = provider
    return OidcSignIn(
        replace(configuration(), group_roles=roles),
        lying,
        access,
        people.users,
        DictIdentityStore(),
        secret=PEPPER,
        clock=people.clock,
    )


async def sign_in(people: PeopleFixture, access: BrowserAccess, provider: LyingProvider) -> tuple[OidcSignIn, Any]:
    await people.accounts.ensure_organisation(Organisation(ORGANISATION, "Acme", 1.0))
    oidc = oidc_sign_in(people, access, provider)
    _url, transaction = await oidc.begin("10.0.0.1", "/")
    provider.nonce = transaction.nonce
    return oidc, await oidc.finish(transaction.cookie, Answer(transaction.state, "code"), None)


async def test_user_information_of_another_subject_is_refused(people: PeopleFixture, access: BrowserAccess) -> None:
    provider = LyingProvider(people)
    provider.information = {"sub": "bob", "email": "bob@example.org", "email_verified": True}
    with pytest.raises(ProviderSignInRefused):
        await sign_in(people, access, provider)
    assert not people.users.users


async def test_a_refreshed_token_of_another_subject_ends_the_session(
    people: PeopleFixture, access: BrowserAccess
) -> None:
    provider = LyingProvider(people)
    oidc, outcome = await sign_in(people, access, provider)
    session = outcome.signed_in.session
    people.clock.now += CHECK_INTERVAL + 1
    assert await oidc.check(session) == []
    people.clock.now += CHECK_INTERVAL + 1
    provider.subject = "bob"
    with pytest.raises(InvalidSession):
        await oidc.check(session)
    assert people.sessions.sessions[session.id].revoked == people.clock.now


async def test_a_provider_that_hangs_ends_no_session(
    people: PeopleFixture, access: BrowserAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert oidc_sign_in_module.CHECK_TIMEOUT < GRACE_PERIOD - 2
    monkeypatch.setattr(oidc_sign_in_module, "CHECK_TIMEOUT", 0.05)
    provider = LyingProvider(people)
    oidc, outcome = await sign_in(people, access, provider)
    provider.meanwhile = asyncio.Event().wait
    people.clock.now += CHECK_INTERVAL + 1
    async with asyncio.timeout(1):
        assert await oidc.check(outcome.signed_in.session) == []
    assert await access.sessions.refresh(parse(outcome.signed_in.refresh))


async def test_a_session_that_ends_while_the_provider_answers_connects_nothing(
    people: PeopleFixture, access: BrowserAccess
) -> None:
    session = (await people.sign_up_member(access, Role.MEMBER)).session
    provider = LyingProvider(people)
    oidc = oidc_sign_in(people, access, provider)
    _url, transaction = await oidc.begin_connection(session, PASSWORD, "", "10.0.0.1")
    provider.nonce, provider.meanwhile = transaction.nonce, lambda: people.users.end_sessions(session.user.id)
    with pytest.raises(ProviderSignInRefused, match="meanwhile"):
        await oidc.finish(transaction.cookie, Answer(transaction.state, "code"), session)


async def test_a_check_that_the_store_interrupted_is_repeated_by_the_next_refresh(
    people: PeopleFixture, access: BrowserAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = LyingProvider(people)
    oidc, outcome = await sign_in(people, access, provider)
    session = outcome.signed_in.session
    people.clock.now += CHECK_INTERVAL + 1
    provider.groups = []
    memberships = people.memberships.of_user

    async def absent(_user: str) -> Any:
        raise StoreUnavailable("no primary")

    monkeypatch.setattr(people.memberships, "of_user", absent)
    with pytest.raises(StoreUnavailable):
        await oidc.check(session)
    monkeypatch.setattr(people.memberships, "of_user", memberships)
    assert [each.event for each in await oidc.check(session)] == [Event.USER_DELETED]
    assert not people.memberships.memberships


async def test_a_check_that_its_gateway_did_not_finish_is_repeated_after_the_lease(
    people: PeopleFixture, access: BrowserAccess
) -> None:
    provider = LyingProvider(people)
    oidc, outcome = await sign_in(people, access, provider)
    session = outcome.signed_in.session
    people.clock.now += CHECK_INTERVAL + 1
    provider.groups, provider.meanwhile = [], asyncio.Event().wait
    check = asyncio.create_task(oidc.check(session))
    await asyncio.sleep(0.01)
    check.cancel()
    provider.meanwhile = None
    assert await oidc.check(session) == []
    people.clock.now += CHECK_LEASE + 1
    assert [each.event for each in await oidc.check(session)] == [Event.USER_DELETED]


async def test_a_finished_check_is_not_repeated_within_the_interval(
    people: PeopleFixture, access: BrowserAccess
) -> None:
    provider = LyingProvider(people)
    oidc, outcome = await sign_in(people, access, provider)
    people.clock.now += CHECK_INTERVAL + 1
    for seconds in (0.0, CHECK_INTERVAL - 1):
        people.clock.now += seconds
        assert await oidc.check(outcome.signed_in.session) == []
        provider.groups = []
    people.clock.now += 2
    assert await oidc.check(outcome.signed_in.session)
