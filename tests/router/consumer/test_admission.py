"""Priority first, flex never starved, and all places for whoever is alone."""

from __future__ import annotations

from typing import cast

from router.consumer.admission import Admission
from router.consumer.attempts import Attempt
from router.messages import Job, SamplingParams, ServiceClass, TextPrompt, Usage
from router.transport.base import Delivery

NO_DELIVERY = cast(Delivery, None)


class Taken(Attempt):
    """A job of which nothing is delivered."""

    usage = Usage(prompt_tokens=0)
    digest = ""


def job(service_class: ServiceClass, tenant: str = "t") -> Job:
    return Job(
        id="j",
        model="m",
        tenant=tenant,
        reply_to="g",
        created=0,
        deadline=0,
        prompt=TextPrompt("x"),
        sampling=SamplingParams(seed=1),
        service_class=service_class,
    )


def waiting(admission: Admission[Taken], service_class: ServiceClass, count: int) -> list[Taken]:
    jobs = [Taken(job(service_class), NO_DELIVERY) for _ in range(count)]
    for running in jobs:
        admission.enqueue(running)
    return jobs


def admitted(admission: Admission[Taken]) -> list[str]:
    taken = []
    while (running := admission.admit()) is not None:
        taken.append(running.job.service_class)
    return taken


def test_one_class_alone_fills_the_engine() -> None:
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


def test_a_place_that_is_given_back_is_given_to_the_next() -> None:
    admission = Admission[Taken](1)
    first, second, third = waiting(admission, ServiceClass.DEFAULT, 3)
    assert admission.admit() is first
    admission.release(second)
    assert admission.admit() is None
    admission.release(first)
    assert admission.admit() is third
    assert not admission.has_slot(first)


def test_a_tenant_that_has_had_little_goes_before_one_that_has_had_much() -> None:
    admission = Admission[Taken](2)
    noisy = [Taken(job(ServiceClass.DEFAULT, "noisy"), NO_DELIVERY) for _ in range(5)]
    for taken in noisy:
        admission.enqueue(taken)
    assert [admission.admit(), admission.admit()] == noisy[:2]
    admission.charge(noisy[0], prompt=10, output=100)
    quiet = Taken(job(ServiceClass.DEFAULT, "quiet"), NO_DELIVERY)
    admission.enqueue(quiet)
    admission.charge(noisy[1], output=1)
    admission.release(noisy[0])
    assert admission.admit() is quiet
