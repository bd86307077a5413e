"""The fair queue of admitted jobs: which job is published next when the workers are full."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.admission import publish_queue
from gateway.admission.active_requesters import RequestersByTenant
from gateway.admission.other_gateways import OtherGatewaysLoad
from gateway.admission.publish_queue import PublishQueue, QueuedJob
from router.errors import PublishUnknown
from router.messages import (
    Delta,
    Job,
    Search,
    SearchMethod,
    ServiceClass,
    Started,
    Step,
    StepState,
    TokenisationPrompt,
    TokenPrompt,
    Usage,
    UsagePart,
)
from tests.contract.examples import JOB, msgspec_replace
from tests.fakes.scripted_worker import ScriptedWorker, count, never
from tests.gateway.conftest import SetStage, eventually


class Models:
    """A fleet with `capacity` slots."""

    def __init__(self, capacity: int, workers: int = 1) -> None:
        self.model = SimpleNamespace(capacity=capacity, workers=workers)

    def find(self, _name: str) -> Any:
        return self.model


def fair(
    capacity: int, gateways: int = 0, sequences: int = 0, active: RequestersByTenant | None = None
) -> PublishQueue:
    load = OtherGatewaysLoad(gateways, sequences, active or {})
    return PublishQueue(Models(capacity), lambda _model: load)  # type: ignore[arg-type]


def job(tenant: str, number: int = 0, **fields: Any) -> Job:
    return msgspec_replace(JOB, id=f"{tenant}-{number}", tenant=tenant, **fields)


def enter(queue: PublishQueue, tenant: str, count: int, **fields: Any) -> list[QueuedJob]:
    return [queue.enter(job(tenant, number, **fields)) for number in range(count)]


def at_workers(turns: list[QueuedJob]) -> int:
    return sum(turn.released and not turn.left for turn in turns)


@pytest.mark.parametrize(("capacity", "expected"), [(16, 8), (1, 1)])
async def test_searches_that_wait_for_a_judge_get_half_of_the_slots(capacity: int, expected: int) -> None:
    """So two models that judge each other always have slots for the grades."""
    queue = fair(capacity)
    voted = Search(method=SearchMethod.SELF_CONSISTENCY, n=4, budget_tokens=99)
    judged = Search(method=SearchMethod.BEST_OF_N, n=4, budget_tokens=99, verifier="other", judge=True)
    turns = enter(queue, "noisy", 100, search=judged, n=1)
    assert at_workers(turns) == expected
    others = enter(queue, "quiet", 1, search=voted, n=1)
    assert at_workers(others) == 1
    next(turn for turn in turns if turn.released).leave()
    assert at_workers(turns) == expected


async def test_a_single_tenant_gets_all_slots_and_the_prefetch() -> None:
    queue = fair(16)
    turns = enter(queue, "noisy", 1000)
    assert at_workers(turns) == 17
    assert queue.waiting == 983
    turns[0].leave()
    turns[0].leave()
    assert at_workers(turns) == 17
    turns[500].leave()  # its client has gone
    assert queue.waiting == 981


async def test_a_quiet_tenant_is_released_at_once_during_a_flood() -> None:
    queue = fair(16)
    noisy = enter(queue, "noisy", 1000)
    (first,) = enter(queue, "quiet", 1)
    assert not first.released  # it came as the first of all others: no place was left for it
    noisy[0].leave()
    assert first.released
    first.leave()
    for turn in [turn for turn in noisy if turn.released][:10]:
        turn.leave()
    assert at_workers(noisy) == 14  # an eighth is left free from now on
    for _ in range(5):
        (turn,) = enter(queue, "quiet", 1)
        assert turn.released
        turn.leave()


def of_person(queue: PublishQueue, person: str, count: int) -> list[QueuedJob]:
    return enter(queue, "organisation", count, requester=person)


async def test_a_quiet_person_is_released_at_once_during_a_flood_of_another() -> None:
    queue = fair(16)
    noisy = of_person(queue, "noisy", 1000)
    assert at_workers(noisy) == 17
    (first,) = of_person(queue, "quiet", 1)
    noisy[0].leave()
    assert first.released
    first.leave()
    for turn in [turn for turn in noisy if turn.released][:10]:
        turn.leave()
    assert at_workers(noisy) == 14
    for _ in range(5):
        (turn,) = of_person(queue, "quiet", 1)
        assert turn.released
        turn.leave()


async def test_an_eighth_stays_free_beside_a_flood_and_the_jobs_of_the_others() -> None:
    queue = fair(64)
    quiet = of_person(queue, "quiet", 6)
    noisy = of_person(queue, "noisy", 1000)
    assert at_workers(noisy) == 64 - 8 - 6
    quiet += of_person(queue, "quiet", 8)
    assert at_workers(quiet) == 6 + 8
    for turn in quiet:
        turn.leave()
    assert at_workers(noisy) == 64 - 8


async def test_floods_of_several_people_use_all_slots() -> None:
    queue = fair(64)
    first, second = of_person(queue, "first", 1000), of_person(queue, "second", 1000)
    for turn in [each for each in first if each.released][:50]:
        turn.leave()
    assert (at_workers(first), at_workers(second)) == (32, 32)


async def test_people_share_what_their_organisation_may_use() -> None:
    """An eighth is reserved for other organisations, and an eighth of the rest for other people of each."""
    queue = fair(64)
    of_person(queue, "quiet", 1)[0].leave()
    noisy = of_person(queue, "noisy", 1000)
    assert at_workers(noisy) == 56
    enter(queue, "another", 1)[0].leave()
    for turn in noisy[:20]:
        turn.leave()
    assert at_workers(noisy) == 49
    assert at_workers(of_person(queue, "second", 100)) == 7
    assert at_workers(enter(queue, "another", 100)) == 12  # with the workers' prefetch


async def test_an_active_person_at_another_gateway_reserves_slots() -> None:
    flood = 100
    assert at_workers(of_person(fair(16, active={"organisation": {"noisy"}}), "noisy", flood)) == 17
    assert at_workers(of_person(fair(16, active={"organisation": {"quiet"}}), "noisy", flood)) == 14
    assert at_workers(of_person(fair(16, active={"organisation": {"quiet", "noisy"}}), "noisy", flood)) == 14
    assert at_workers(of_person(fair(16, active={"another": {"quiet"}}), "noisy", flood)) == 14


async def test_a_burst_exceeds_the_equal_share_after_the_next_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have come to the other gateway at the same time; 14 of 16 slots would be taken twice."""
    monkeypatch.setattr(publish_queue, "RECHECK_INTERVAL", 0.01)
    load = OtherGatewaysLoad(active={"organisation": {"quiet"}}, alive=1, reported=0.0)
    queue = PublishQueue(Models(16), lambda _model: load)  # type: ignore[arg-type]
    noisy = of_person(queue, "noisy", 100)
    assert at_workers(noisy) == 7
    assert at_workers(of_person(queue, "quiet", 5)) == 5
    await asyncio.sleep(0.05)
    assert at_workers(noisy) == 7
    load = load._replace(reported=time.monotonic() + publish_queue.BURST_REPORT_DELAY)
    await eventually(lambda: at_workers(noisy) == 14 - 5)


async def test_gateways_with_one_flood_leave_the_reserve_of_the_fleet_free() -> None:
    """Each knows only the other's last report: what one leaves at that moment must not be taken by both."""
    loads = [OtherGatewaysLoad(active={"organisation": {"quiet"}}, alive=1, gateways=1, reported=0.0) for _ in range(2)]
    queues = [PublishQueue(Models(64), lambda _model, n=n: loads[n]) for n in range(2)]  # type: ignore[arg-type,misc]
    floods = [of_person(queue, "noisy", 1000) for queue in queues]
    for _ in range(20):
        counts = [at_workers(flood) for flood in floods]
        assert sum(counts) <= 64 - 8
        later = time.monotonic() + publish_queue.BURST_REPORT_DELAY
        loads = [load._replace(sequences=counts[1 - n], reported=later) for n, load in enumerate(loads)]
        for flood in floods:
            for turn in [each for each in flood if each.released and not each.left][:3]:
                turn.leave()


async def test_active_requesters_are_reported_by_model() -> None:
    queue = fair(16)
    of_person(queue, "a", 1)
    of_person(queue, "b", 1)
    (active,) = queue.active_requesters().values()
    assert list(active.latest_first()) == [("organisation", "b"), ("organisation", "a")]


async def test_two_flooding_tenants_share_by_tokens() -> None:
    queue = fair(8)
    lengths, served = {"long": 100, "short": 10}, Counter[str]()
    going = [turn for tenant in lengths for turn in enter(queue, tenant, 300)]
    left = {turn: lengths[turn.job.tenant] for turn in going}
    for _ in range(600):
        for turn in [turn for turn in going if turn.released]:
            turn.charge(Delta(job_id=turn.job.id, attempt_id="a", start=0, token_ids=[1]))
            served[turn.job.tenant] += 1
            left[turn] -= 1
            if not left[turn]:
                going.remove(turn)
                turn.leave()
    assert abs(served["long"] - served["short"]) <= 2 * 8 * 100


async def test_a_job_with_many_choices_waits_for_all_its_slots_and_is_not_overtaken() -> None:
    queue = fair(4)
    small = enter(queue, "a", 3)
    (wide,) = enter(queue, "a", 1, n=4)
    later = enter(queue, "a", 1)
    assert at_workers([*small, wide, *later]) == 3
    for turn in small:
        turn.leave()
    assert wide.released
    (wider,) = enter(fair(4), "a", 1, n=64)  # more than there will ever be: alone
    assert wider.released


async def test_other_gateways_keep_their_share() -> None:
    assert at_workers(enter(fair(16, 1, 1000), "a", 100)) == 9
    assert at_workers(enter(fair(16, 1, 3), "a", 100)) == 14
    assert at_workers(enter(fair(1, 3, 1000), "a", 5)) == 2


async def test_without_workers_all_jobs_are_published() -> None:
    queue = PublishQueue(Models(0, workers=0))  # type: ignore[arg-type]
    assert at_workers(enter(queue, "a", 100)) == 100


async def test_additional_capacity_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_queue, "RECHECK_INTERVAL", 0.01)
    models = Models(2)
    turns = enter(PublishQueue(models), "a", 10)  # type: ignore[arg-type]
    assert at_workers(turns) == 3
    models.model.capacity = 8
    await eventually(lambda: at_workers(turns) == 9)


async def test_flex_keeps_its_minimum_share() -> None:
    queue = fair(16)
    default = enter(queue, "a", 100)
    flex = enter(queue, "a", 100, service_class=ServiceClass.FLEX)
    for turn in default[:8]:
        turn.leave()
    assert at_workers(flex) == 2


async def test_flex_beyond_its_share_takes_no_slot_from_others() -> None:
    """Of the same tenant and requester too; 16 slots and one that is prefetched."""
    queue = fair(16)
    flex = enter(queue, "a", 100, service_class=ServiceClass.FLEX)
    assert at_workers(flex) == 17
    default = enter(queue, "a", 100)
    assert at_workers(default) == 15
    for turn in flex[:17]:
        turn.leave()
    assert at_workers(flex) == 2
    assert at_workers(default) == 15


async def test_flex_of_other_gateways_takes_slots_only_from_flex() -> None:
    load = OtherGatewaysLoad(gateways=1, sequences=14, flex_sequences=14, alive=1)
    queue = PublishQueue(Models(16), lambda _model: load)  # type: ignore[arg-type]
    assert at_workers(enter(queue, "a", 100)) == 15
    queue = PublishQueue(Models(16), lambda _model: load)  # type: ignore[arg-type]
    assert at_workers(enter(queue, "a", 100, service_class=ServiceClass.FLEX)) == 9


async def test_prompt_tokens_are_charged_to_the_tenant() -> None:
    queue = fair(2)
    running = enter(queue, "a", 1) + enter(queue, "b", 2)
    waiting = [*enter(queue, "a", 1), *enter(queue, "b", 1)]
    running[0].charge(Started(job_id="a-0", attempt_id="x", worker_id="w", prompt_tokens=1000))
    running[1].leave()
    running[2].leave()
    assert [turn.released for turn in waiting] == [False, True]


async def test_the_tokens_of_a_search_at_its_model_are_charged_to_the_tenant() -> None:
    queue = fair(2)
    running = enter(queue, "a", 1) + enter(queue, "b", 2)
    waiting = [*enter(queue, "a", 1), *enter(queue, "b", 1)]
    for turn, model in ((running[0], JOB.model), (running[1], "prm")):
        part = UsagePart(model=model, usage=Usage(prompt_tokens=0, completion_tokens=1000))
        step = Step(number=0, kind="search", name="dvts", state=StepState.DONE, parts=[part])
        turn.charge(Delta(job_id=turn.job.id, attempt_id="x", start=0, token_ids=[], step=step))
    running[1].leave()
    running[2].leave()
    assert [turn.released for turn in waiting] == [False, True]


async def test_a_waiting_request_is_published_later_and_answered(set_stage: SetStage) -> None:
    released = asyncio.Event()

    async def patient(worker: ScriptedWorker, job: Job) -> None:
        await released.wait()
        await count(worker, job)

    stage = await set_stage(patient)
    queue = stage.gateway.publish_queue
    queue._models = Models(1)  # type: ignore[assignment]
    asked = [asyncio.create_task(stage.chat(stream=number == 2)) for number in range(3)]
    await eventually(lambda: queue.waiting == 1)
    await eventually(lambda: len(stage.worker.jobs) == 2)
    released.set()
    answers = await asyncio.gather(*asked)
    assert [answer.status_code for answer in answers] == [200] * 3
    assert "[DONE]" in answers[2].text
    await eventually(stage.is_settled)
    assert not stage.billing.voided


async def test_waiting_requests_that_end_early_or_cannot_be_published(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage(never)
    queue = stage.gateway.publish_queue
    queue._models = Models(1)  # type: ignore[assignment]
    asked = []
    for number in range(4):
        asked.append(asyncio.create_task(stage.chat()))
        await eventually(lambda number=number: len(stage.worker.jobs) + queue.waiting == number + 1)  # type: ignore[misc]
    assert queue.waiting == 2
    asked[3].cancel()
    await eventually(lambda: queue.waiting == 1)
    await eventually(lambda: len(stage.billing.voided) == 1)

    async def broken(*_: object) -> None:
        raise PublishUnknown("no answer")

    monkeypatch.setattr(stage.gateway.bus, "publish_job", broken)
    asked[0].cancel()
    answer = await asked[2]
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
    asked[1].cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    await eventually(stage.is_settled)


async def test_a_job_without_a_slot_waits_for_none_and_takes_none() -> None:
    queue = fair(1)
    running, waiting = enter(queue, "a", 2)[0], enter(queue, "b", 1)[0]
    prompt = TokenisationPrompt(source=TokenPrompt([1]))
    tokenising = queue.enter(job("c", prompt=prompt))
    assert (running.released, waiting.released, tokenising.released) == (True, False, True)
    tokenising.leave()
    assert not waiting.released
    assert set(queue.active_requesters()[JOB.model].by_tenant) == {"a", "b"}
