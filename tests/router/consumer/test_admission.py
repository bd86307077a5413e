"""Admission: priority first, flex never starves, a single class may use all slots."""

from __future__ import annotations

from typing import cast

import pytest

from router.consumer.admission import Admission
from router.consumer.attempts import Attempt
from router.messages import Job, ServiceClass, Usage
from router.transport.base import Delivery
from tests.fakes.jobs import make_job

NO_DELIVERY = cast(Delivery, None)


class Taken(Attempt):
    """An attempt without delivered tokens."""

    usage = Usage(prompt_tokens=0)
    digest = ""


def job(service_class: ServiceClass, tenant: str = "t", requester: str = "") -> Job:
    return make_job(tenant=tenant, requester=requester, deadline=0, service_class=service_class)


def waiting(admission: Admission[Taken], service_class: ServiceClass, count: int) -> list[Taken]:
    jobs = [Taken(job(service_class), NO_DELIVERY) for _ in range(count)]
    for running in jobs:
        admission.enqueue(running)
    return jobs


def admitted(admission: Admission[Taken]) -> list[ServiceClass]:
    admitted = []
    while (running := admission.admit()) is not None:
        admitted.append(running.job.service_class)
    return admitted


def test_a_single_class_may_use_all_slots() -> None:
    for service_class in ServiceClass:
        admission = Admission[Taken](8)
        waiting(admission, service_class, 10)
        assert len(admitted(admission)) == 8
        assert admission.waiting == 2


def test_priority_goes_first_and_flex_keeps_its_floor() -> None:
    admission = Admission[Taken](8)
    for service_class in (ServiceClass.FLEX, ServiceClass.DEFAULT, ServiceClass.PRIORITY):
        waiting(admission, service_class, 4)
    assert admitted(admission) == ["flex", *["priority"] * 4, *["default"] * 3]


def test_flex_beyond_its_floor_takes_no_slot_from_others_where_engines_preempt_it() -> None:
    admission = Admission[Taken](16)
    admission.preempts_flex = True
    waiting(admission, ServiceClass.FLEX, 20)
    assert admitted(admission) == ["flex"] * 16
    default = waiting(admission, ServiceClass.DEFAULT, 20)
    assert admitted(admission) == ["default"] * 14
    for attempt in default[:14]:
        admission.release(attempt)
    assert admitted(admission) == ["default"] * 6


def test_a_released_slot_goes_to_the_next_job() -> None:
    admission = Admission[Taken](1)
    first, second, third = waiting(admission, ServiceClass.DEFAULT, 3)
    assert admission.admit() is first
    admission.release(second)
    assert admission.admit() is None
    admission.release(first)
    assert admission.admit() is third
    assert not admission.has_slot(first)


@pytest.mark.parametrize(
    ("noisy_one", "quiet_one"), [(("noisy", "r"), ("quiet", "r")), (("t", "noisy"), ("t", "quiet"))]
)
def test_the_tenant_or_requester_with_less_service_goes_first(
    noisy_one: tuple[str, str], quiet_one: tuple[str, str]
) -> None:
    admission = Admission[Taken](2)
    noisy = [Taken(job(ServiceClass.DEFAULT, *noisy_one), NO_DELIVERY) for _ in range(5)]
    for attempt in noisy:
        admission.enqueue(attempt)
    assert [admission.admit(), admission.admit()] == noisy[:2]
    admission.charge(noisy[0], prompt=10, output=100)
    quiet = Taken(job(ServiceClass.DEFAULT, *quiet_one), NO_DELIVERY)
    admission.enqueue(quiet)
    admission.charge(noisy[1], output=1)
    admission.release(noisy[0])
    assert admission.admit() is quiet


def test_of_suspects_the_one_with_the_most_crashes_runs_first() -> None:
    admission = Admission[Taken](8)
    [poison], [innocent] = waiting(admission, ServiceClass.PRIORITY, 1), waiting(admission, ServiceClass.DEFAULT, 1)
    poison.solo = innocent.solo = True
    poison.crashes, innocent.crashes = 1, 2  # the poison job crashes its engine after a token, beside the other job
    assert admission.admit() is innocent
    assert admission.admit() is None
