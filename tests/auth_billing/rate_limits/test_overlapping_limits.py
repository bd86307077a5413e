"""Limits of people, models and organisations over the limits of keys, at two gateways that share the store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.access.principal import Principal
from auth_billing.errors import LargerThanLimit, RateLimitExceeded, TokenLimitExceeded
from auth_billing.rate_limits.lease import ADVANCE_PERIOD
from auth_billing.rate_limits.limit_registry import CACHE_TTL
from auth_billing.rate_limits.limiter import RateLimiter, TokenUse
from auth_billing.rate_limits.limits import (
    UNLIMITED,
    Dimension,
    Limits,
    Subject,
    SubjectKind,
    key_subject,
    model_subject,
    organisation_model_subject,
    organisation_subject,
    person_subject,
    project_subject,
)
from tests.auth_billing.rate_limits.conftest import Fleet, charged, enter, tokens_of_m

KEY = Principal("key-1", "org-1", "salt", project="proj_1", user="user-1")
OTHER_KEY = replace(KEY, key_id="key-2", project="proj_2")
CHAT = replace(KEY, key_id="")
OTHER_PERSON = replace(KEY, key_id="key-3", user="user-2")
ELSEWHERE = replace(KEY, key_id="key-4", tenant="org-2", project="proj_9")
ADA = person_subject("org-1", "user-1")


def limited(**limits: Limits) -> tuple[Fleet, RateLimiter, RateLimiter]:
    """Return two gateways, with limits by kind of subject."""
    fleet = Fleet({SubjectKind(kind): each for kind, each in limits.items()})
    return fleet, fleet.add(), fleet.add()


async def admitted(gateway: RateLimiter, caller: Principal, requests: int = 20) -> int:
    """Return how many of the requests, one after the other, are admitted."""
    for number in range(requests):
        try:
            (await charged(gateway, 1, caller, used=1)).close()
        except RateLimitExceeded:
            return number
    return requests


async def test_a_person_is_limited_over_keys_and_chats_at_all_gateways_and_in_one_organisation() -> None:
    _, first, second = limited(person=Limits(requests_per_minute=3))
    for gateway, caller in ((first, KEY), (second, OTHER_KEY), (first, CHAT)):
        await charged(gateway, 1, caller)
    for gateway, caller in ((first, OTHER_KEY), (second, CHAT)):
        with pytest.raises(RateLimitExceeded, match="for this user's API keys and chats together on req") as refused:
            await charged(gateway, 1, caller)
        assert refused.value.kind == "person"
    for free in (OTHER_PERSON, ELSEWHERE, replace(KEY, user=""), replace(KEY, project="")):
        await enter(second, free)


async def test_a_model_is_limited_over_all_projects_of_an_organisation() -> None:
    _, first, second = limited(organisation_model=Limits(requests_per_minute=2))
    await charged(first, 1, KEY)
    await charged(second, 1, OTHER_KEY)
    with pytest.raises(RateLimitExceeded, match="for m in this organisation") as refused:
        await charged(first, 1, OTHER_PERSON)
    assert refused.value.kind == "organisation_model"
    await charged(first, 1, ELSEWHERE)


async def test_the_strictest_of_overlapping_limits_counts_and_is_named() -> None:
    subjects: dict[SubjectKind, Subject] = {
        SubjectKind.KEY: key_subject("key-1", ""),
        SubjectKind.PERSON: ADA,
        SubjectKind.PROJECT: project_subject("proj_1"),
        SubjectKind.MODEL: model_subject("proj_1", "m"),
        SubjectKind.ORGANISATION: organisation_subject("org-1"),
        SubjectKind.ORGANISATION_MODEL: organisation_model_subject("org-1", "m"),
    }
    for kind in SubjectKind:
        fleet, first, second = limited()
        for each, subject in subjects.items():
            fleet.limits.limits[subject.id] = Limits(requests_per_minute=2 if each is kind else 9)
        await charged(first, 1, KEY)
        status = min((await charged(second, 1, KEY)).statuses(), key=lambda each: each[2].remaining)
        assert (status[0], status[2].limit, status[2].remaining) == (kind, 2, 0)
        with pytest.raises(RateLimitExceeded) as refused:
            await charged(first, 1, KEY)
        assert refused.value.kind == kind


async def test_a_refused_request_takes_nothing_from_the_other_limits() -> None:
    _, first, _ = limited(person=Limits(requests_per_minute=5), model=Limits(requests_per_minute=1))
    await charged(first, 1, KEY)
    for _ in range(20):
        with pytest.raises(RateLimitExceeded):
            await charged(first, 1, KEY)
    assert await admitted(first, OTHER_KEY, 1) == 1


async def test_unused_tokens_return_to_the_person_from_every_gateway() -> None:
    fleet, first, second = limited(person=Limits(tokens_per_minute=1000))
    running = await charged(first, 900, KEY, used=100)
    with pytest.raises(TokenLimitExceeded):
        await charged(second, 900, CHAT)
    running.close()
    await fleet.pass_time(ADVANCE_PERIOD + 0.5)  # the first gateway gives them back to the store
    (await charged(second, 850, CHAT, used=850)).close()
    with pytest.raises(TokenLimitExceeded):
        await charged(first, 300, KEY)
    with pytest.raises(LargerThanLimit) as larger:
        await (await enter(first, KEY)).charge("m", most=tokens_of_m(2000), least=1001, used=TokenUse)
    assert larger.value.kind == "person"


async def test_concurrent_requests_of_a_person_are_limited_over_gateways() -> None:
    fleet, first, second = limited(person=Limits(concurrent_requests=2))
    running = [await enter(first, KEY), await enter(second, CHAT)]
    with pytest.raises(RateLimitExceeded, match="concurrent"):
        await enter(first, OTHER_KEY)
    running[1].close()
    await fleet.pass_time(1)
    await enter(first, OTHER_KEY)


@pytest.mark.parametrize("subject", [ADA, key_subject("key-1", ""), organisation_model_subject("org-1", "m")])
async def test_a_change_and_a_removal_hold_within_five_seconds_at_the_other_gateway(subject: Subject) -> None:
    fleet, first, second = limited()
    assert await admitted(second, KEY) == 20
    await first.book.change(subject, Limits(requests_per_minute=2))
    assert await admitted(first, KEY) == 2
    await fleet.pass_time(4.9)
    assert CACHE_TTL + ADVANCE_PERIOD < 4.9
    assert await admitted(second, KEY) == 0
    await first.book.change(subject, Limits(requests_per_minute=UNLIMITED))
    assert await admitted(first, KEY) == 20
    await fleet.pass_time(4.9)
    assert await admitted(second, KEY) == 20


async def test_a_lowered_limit_holds_for_units_that_were_leased_before() -> None:
    fleet, first, second = limited(person=Limits(requests_per_minute=1000))
    for _ in range(4):
        assert await admitted(second, KEY, 60) == 60
        await fleet.pass_time(0.5)
    await first.book.change(ADA, Limits(requests_per_minute=2))
    await fleet.pass_time(4.9)
    assert await admitted(second, KEY) <= 2


async def test_limits_of_people_and_models_cost_no_store_call_where_none_are_set() -> None:
    fleet, first, _ = limited()
    for _ in range(100):
        (await charged(first, 10**6, KEY)).close()
    assert fleet.store.absence.asked == 0
    assert fleet.limits.absence.asked == 2  # of the caller, and of the model, once


async def test_a_person_without_a_project_administers_beyond_the_limit() -> None:
    _, first, _ = limited(person=Limits(requests_per_minute=1))
    admin_key = replace(KEY, project="")
    for _ in range(5):
        await enter(first, admin_key)
    assert [kind for kind, dimension, _ in (await enter(first, KEY)).statuses() if dimension in Dimension] == ["person"]
