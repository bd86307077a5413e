"""Rate limits as enforced by one gateway and by several."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from auth_billing.access.principal import Principal
from auth_billing.errors import LargerThanLimit, RateLimitExceeded, StoreUnavailable, TokenLimitExceeded
from auth_billing.rate_limits.limiter import Allowance, RateLimiter, TokenUse
from auth_billing.rate_limits.limits import UNLIMITED, Dimension, Limits, SubjectKind, key_subject, model_subject
from tests.auth_billing.rate_limits.conftest import ALICE, BOB, Fleet, at_once, charged, enter, tokens_of_m

RPM, TPM = Dimension.REQUESTS_PER_MINUTE, Dimension.TOKENS_PER_MINUTE


def limited(key: Limits | None = None, model: Limits | None = None) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fleet", [(key or Limits(), model or Limits())], indirect=True, ids=[""])


@limited()
async def test_unlimited_requests_cause_no_store_call(fleet: Fleet) -> None:
    gateway = fleet.add()
    for _ in range(100):
        (await charged(gateway, 10**6)).close()
    assert fleet.store.absence.asked == 0
    assert fleet.limits.absence.asked == 2  # whether there are limits is read once, for a while


@limited(Limits(requests_per_minute=3))
async def test_a_refusal_states_the_wait(fleet: Fleet) -> None:
    gateway = fleet.add()
    for _ in range(3):
        (await enter(gateway)).close()
    with pytest.raises(
        RateLimitExceeded, match=r"this API key on requests per min \(RPM\): Limit 3, Used 3"
    ) as refused:
        await enter(gateway)
    assert refused.value.wait == pytest.approx(20.0)
    await enter(gateway, BOB)  # has a limit of his own
    await fleet.pass_time(20.1)
    await enter(gateway)
    with pytest.raises(RateLimitExceeded):
        await enter(gateway)


@limited(Limits(requests_per_minute=3))
async def test_refusals_write_nothing_and_seldom_read(fleet: Fleet) -> None:
    gateway = fleet.add()
    assert await at_once(gateway, 50) == 3
    writes, asked = fleet.store.writes, fleet.store.absence.asked
    for _ in range(1000):
        with pytest.raises(RateLimitExceeded):
            await enter(gateway)
    assert fleet.store.writes == writes
    assert fleet.store.absence.asked == asked


@limited(Limits(requests_per_day=5))
async def test_requests_per_day_are_limited(fleet: Fleet) -> None:
    gateway = fleet.add()
    assert await at_once(gateway, 10) == 5
    await fleet.pass_time(3600)
    assert await at_once(gateway, 10) == 0
    await fleet.pass_time(5 * 3600)
    assert await at_once(gateway, 10) == 1


@limited(model=Limits(tokens_per_minute=1000))
async def test_tokens_are_charged_in_advance_and_corrected_at_the_end(fleet: Fleet) -> None:
    gateway = fleet.add()
    allowance = await charged(gateway, 900, used=100)
    with pytest.raises(TokenLimitExceeded, match=r"m in project proj_1 on tokens per min.*Requested 200"):
        await charged(gateway, 200)
    allowance.close()
    second = await charged(gateway, 900)
    ((_, _, status),) = second.statuses()
    assert (status.limit, status.remaining) == (1000, 0)


@limited(model=Limits(tokens_per_minute=1000))
async def test_tokens_beyond_the_estimate_are_owed(fleet: Fleet) -> None:
    gateway = fleet.add()
    (await charged(gateway, 1000, used=1500)).close()
    await fleet.pass_time(29)
    with pytest.raises(TokenLimitExceeded):
        await charged(gateway, 1)
    await fleet.pass_time(2)
    await charged(gateway, 1)


@limited(model=Limits(tokens_per_minute=1000))
async def test_refilled_units_are_not_given_back_again(fleet: Fleet) -> None:
    """A long request's estimate has refilled by the end of its minute."""
    gateway = fleet.add()
    long = await charged(gateway, 1000)
    await fleet.pass_time(61)
    await charged(gateway, 1000)
    long.close()
    with pytest.raises(TokenLimitExceeded):
        await charged(gateway, 100)


@limited(model=Limits(tokens_per_minute=1000))
async def test_a_request_that_may_exceed_the_limit_takes_all_of_it(fleet: Fleet) -> None:
    gateway = fleet.add()
    allowance = gateway.allowance(ALICE)
    await allowance.enter()
    with pytest.raises(LargerThanLimit):
        await allowance.charge("m", most=tokens_of_m(5000), least=1001, used=TokenUse)
    await charged(gateway, 5000)
    with pytest.raises(TokenLimitExceeded):
        await charged(gateway, 1)


@limited(model=Limits(tokens_per_minute=1000, requests_per_minute=2, concurrent_requests=1))
async def test_jobs_of_one_request_are_charged_their_tokens_and_one_request(fleet: Fleet) -> None:
    """Each job has at most 900 tokens and uses fewer, which the next one finds given back."""
    gateway = fleet.add()
    allowance = await charged(gateway, 900, used=300)
    await allowance.charge("m", most=tokens_of_m(700), least=1, used=lambda: tokens_of_m(200))
    with pytest.raises(RateLimitExceeded):
        await allowance.charge("m", most=tokens_of_m(900), least=1, used=TokenUse)
    allowance.close()
    with pytest.raises(TokenLimitExceeded):
        await charged(gateway, 501)
    await charged(gateway, 500)


async def asked_assistant(gateway: RateLimiter, used: TokenUse) -> Allowance:
    """Charge a request to an assistant `a`, which has `m` answer and may have `p` draw; in the end it has `used`."""
    allowance = await enter(gateway)
    await allowance.charge("a", most=TokenUse(150, {"a": 100, "m": 150, "p": 0}), least=1, used=lambda: used)
    return allowance


@limited(model=Limits(tokens_per_minute=1000))
async def test_a_request_to_an_assistant_counts_at_the_models_that_it_calls(fleet: Fleet) -> None:
    gateway = fleet.add()
    (await asked_assistant(gateway, TokenUse(600, {"a": 550, "m": 600}))).close()
    await charged(gateway, 400)  # of `m`, asked directly
    with pytest.raises(TokenLimitExceeded, match="for m in project"):
        await asked_assistant(gateway, TokenUse())


@limited(model=Limits(concurrent_requests=2))
async def test_a_model_is_called_by_so_many_requests_to_an_assistant_at_once(fleet: Fleet) -> None:
    gateway = fleet.add()
    running = [await asked_assistant(gateway, TokenUse()) for _ in range(2)]
    with pytest.raises(RateLimitExceeded, match="for m in project proj_1 on concurrent requests"):
        await charged(gateway, 1)
    running[0].close()
    await charged(gateway, 1)


@limited()
async def test_a_model_that_an_assistant_did_not_call_gets_its_request_back(fleet: Fleet) -> None:
    fleet.limits.limits[model_subject("proj_1", "p").id] = Limits(requests_per_minute=1, requests_per_day=1)
    gateway = fleet.add()
    for _ in range(5):
        (await asked_assistant(gateway, TokenUse(150, {"a": 100, "m": 150}))).close()
    (await asked_assistant(gateway, TokenUse(150, {"a": 100, "m": 150, "p": 0}))).close()
    with pytest.raises(RateLimitExceeded, match="for p in project"):
        await asked_assistant(gateway, TokenUse())


@limited(Limits(requests_per_minute=10), Limits(tokens_per_minute=100))
async def test_a_refused_request_is_charged_to_no_limit(fleet: Fleet) -> None:
    gateway = fleet.add()
    await charged(gateway, 100)
    for _ in range(20):
        with pytest.raises(TokenLimitExceeded):
            await charged(gateway, 100)
    assert await at_once(gateway, 20) == 9


@limited(Limits(concurrent_requests=2))
async def test_slots_are_freed_when_requests_end(fleet: Fleet) -> None:
    gateway, other = fleet.add(), fleet.add()
    first, second = await enter(gateway), await enter(other)
    for each in (gateway, other):
        with pytest.raises(RateLimitExceeded, match="concurrent requests: Limit 2, Used 2, Requested 1"):
            await enter(each)
    first.close()
    second.close()
    await fleet.pass_time(1)
    assert await at_once(other, 5) == 2
    assert await at_once(gateway, 5) == 0


@limited(Limits(concurrent_requests=4))
async def test_slots_of_a_crashed_gateway_expire(fleet: Fleet) -> None:
    dying, alive = fleet.add(), fleet.add()
    assert await at_once(dying, 3) == 3
    await enter(alive)
    fleet.gateways.remove(dying)
    await fleet.pass_time(29)
    assert await at_once(alive, 4) == 0
    await fleet.pass_time(2)
    assert await at_once(alive, 4) == 3


@limited(Limits(concurrent_requests=4))
async def test_slots_of_long_requests_are_renewed(fleet: Fleet) -> None:
    gateway, other = fleet.add(), fleet.add()
    assert await at_once(gateway, 4) == 4
    await fleet.pass_time(300)
    assert await at_once(other, 1) == 0


@limited(Limits(concurrent_requests=1000))
async def test_slots_of_many_requests_cost_few_writes(fleet: Fleet) -> None:
    gateway = fleet.add()
    for _ in range(500):
        (await enter(gateway)).close()
    assert fleet.store.writes == 1
    assert await at_once(gateway, 1500) == 1000


@limited(Limits(concurrent_requests=1))
async def test_a_request_cancelled_during_a_store_call_takes_nothing(fleet: Fleet) -> None:
    gateway = fleet.add()
    allowance = gateway.allowance(ALICE)
    entering = asyncio.create_task(allowance.enter())
    await asyncio.sleep(0)
    entering.cancel()
    await asyncio.gather(entering, return_exceptions=True)
    allowance.close()
    await fleet.pass_time(1)
    assert await at_once(gateway, 2) == 1


@limited(Limits(requests_per_minute=600))
async def test_a_few_writes_serve_many_requests(fleet: Fleet) -> None:
    gateway = fleet.add()
    for _ in range(30):
        for _ in range(5):
            await enter(gateway)
        await fleet.pass_time(0.5)
    assert fleet.store.writes <= 40  # of 150 requests, at ten a second


@limited(Limits(requests_per_minute=60), Limits(tokens_per_minute=6000))
async def test_all_gateways_together_admit_the_limit_and_no_more(fleet: Fleet) -> None:
    """Ten minutes of twice the load that is allowed, on five gateways, with corrections of half of the tokens."""
    gateways, random_ = [fleet.add() for _ in range(5)], random.Random(7)
    admitted, running = [], []
    for tick in range(1200):
        await fleet.pass_time(0.5)
        try:
            running.append(await charged(random_.choice(gateways), 160, used=80))
            admitted.append(tick)
        except RateLimitExceeded:
            pass
        if len(running) > 4:
            running.pop(0).close()
    bucketful, comes_back = 60, 600 * 60 / 60
    assert len(admitted) <= bucketful + comes_back
    assert len(admitted) >= 0.95 * (bucketful + comes_back)
    for i, tick in enumerate(admitted):  # in any minute: a bucketful, what came back, and what was taken in advance
        assert sum(1 for later in admitted[i:] if later < tick + 120) <= 60 + 60 + 8


@limited(Limits(requests_per_minute=60))
async def test_units_unused_by_one_gateway_serve_the_others(fleet: Fleet) -> None:
    first, second = fleet.add(), fleet.add()
    for _ in range(20):
        await enter(first)
    await fleet.pass_time(1.5)
    assert await at_once(second, 100) in (40, 41, 42)


@limited(Limits(requests_per_minute=60))
async def test_while_the_store_is_away_only_leased_units_are_admitted(fleet: Fleet) -> None:
    gateway = fleet.add()
    for _ in range(20):
        await enter(gateway)
    fleet.store.absence.away = fleet.limits.absence.away = True
    await fleet.pass_time(20)  # the limits that were read are old by now, and go on
    results = await asyncio.gather(*(enter(gateway) for _ in range(60)), return_exceptions=True)
    served = sum(not isinstance(result, Exception) for result in results)
    assert 0 < served <= 60 // 8
    assert all(isinstance(result, StoreUnavailable) for result in results if isinstance(result, Exception))
    asked = fleet.store.absence.asked
    for _ in range(100):
        with pytest.raises(StoreUnavailable):
            await enter(gateway)
    assert fleet.store.absence.asked == asked  # not every request waits in vain
    fleet.store.absence.away = fleet.limits.absence.away = False
    await fleet.pass_time(2)
    await enter(gateway)


@limited(Limits(requests_per_minute=10))
async def test_a_change_of_limits_reaches_each_gateway_within_seconds(fleet: Fleet) -> None:
    first, second = fleet.add(), fleet.add()
    await enter(first)
    await enter(second)
    subject = key_subject(ALICE.key_id, "")
    fleet.limits.limits[subject.operator_id] = Limits(requests_per_minute=UNLIMITED)
    assert (await first.book.change(subject, Limits(requests_per_minute=100))).requests_per_minute == 100
    await fleet.pass_time(10)
    assert 70 <= await at_once(second, 200) <= 100
    await first.book.change(subject, Limits(requests_per_minute=UNLIMITED))
    assert await at_once(first, 200) == 200


async def test_a_project_is_limited_across_its_keys() -> None:
    fleet = Fleet({SubjectKind.PROJECT: Limits(requests_per_minute=4)})
    gateway = fleet.add()
    await enter(gateway, ALICE)
    await enter(gateway, BOB)
    assert await at_once(gateway, 5) == 2


async def test_an_organisation_is_limited_across_its_projects_and_people() -> None:
    fleet = Fleet({SubjectKind.ORGANISATION: Limits(requests_per_minute=4, tokens_per_minute=100)})
    gateway = fleet.add()
    callers = [
        replace(ALICE, project="proj_2"),
        Principal("", "org-1", "salt", project="proj_1", user="user-1"),
        Principal("key-3", "org-2", "salt", project="proj_3"),
        Principal("key-admin", "org-1", "salt"),
    ]
    for caller in (ALICE, *callers):
        await charged(gateway, 30, caller, used=30)
    with pytest.raises(TokenLimitExceeded):
        await charged(gateway, 30)
    assert await at_once(gateway, 5) == 1


@limited(Limits(requests_per_minute=8, concurrent_requests=20))
async def test_a_stopping_gateway_gives_back_its_units_and_slots(fleet: Fleet) -> None:
    stopping, other = fleet.add(), fleet.add()
    for _ in range(4):
        (await enter(stopping)).close()
    await stopping.close()
    assert await at_once(other, 10) == 4


@limited(Limits(requests_per_minute=8))
async def test_unused_leases_are_dropped(fleet: Fleet) -> None:
    gateway = fleet.add()
    (await enter(gateway)).close()
    assert len(gateway) == 3  # the key's, the project's and the organisation's: ALICE's key belongs to no person
    await fleet.pass_time(61)
    assert len(gateway) == 0
