"""Parameters of the identity provider's redirect, which anyone may send, without a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.datastructures import QueryParams

from auth_billing.errors import ProviderSignInRefused
from auth_billing.people.oidc.oidc_sign_in import Answer
from chat_ui.http.api import create_api
from chat_ui.http.routes.oidc import MAX_PARAMETER
from tests.chat_ui.browser_client import Browser
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.fakes.sessions import PeopleFixture


class RefusingSignIn:
    """A sign-in at a provider that refuses each answer, and keeps it."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    async def finish(self, _cookie: str, answer: Answer, _session: object) -> Any:
        self.answers.append(answer)
        raise ProviderSignInRefused("sign_in_expired", "refused")


@pytest.fixture
def oidc() -> RefusingSignIn:
    return RefusingSignIn()


@pytest.fixture
async def browser(oidc: RefusingSignIn) -> AsyncIterator[Browser]:
    people: Any = PeopleFixture()
    services: Any = ChatHouse().chat(people.process(), ListAuditLogStore())
    yield Browser(create_api(replace(services, oidc=oidc)))
    people.passwords.close()


async def test_a_repeated_or_too_long_parameter_counts_as_not_sent(browser: Browser, oidc: RefusingSignIn) -> None:
    sent = [("state", "a"), ("state", "b"), ("code", "c"), ("iss", "x" * (MAX_PARAMETER + 1)), ("other", "y")]
    await browser.get(f"/oidc/callback?{urlencode(sent)}")
    assert oidc.answers == [Answer(state="", code="c")]


async def test_many_parameters_do_not_take_time_by_the_square_of_their_number(
    browser: Browser, oidc: RefusingSignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    getlist, lookups = QueryParams.getlist, list[str]()

    def counted(query: QueryParams, name: str) -> list[Any]:
        lookups.append(name)
        return getlist(query, name)

    monkeypatch.setattr(QueryParams, "getlist", counted)
    many = "&".join(f"p{number}" for number in range(1000))
    response = await browser.get(f"/oidc/callback?{many}&code=c")
    assert response.headers["location"] == "/sign-in#problem=sign_in_expired"
    assert oidc.answers == [Answer(state="", code="c")]
    assert len(lookups) <= 4  # each reads the whole query
