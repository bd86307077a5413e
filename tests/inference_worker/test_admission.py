"""Priority first, flex never starved, and the whole engine for whoever is alone."""

from __future__ import annotations

from typing import cast

from inference_worker.admission import Admission, capacity
from inference_worker.running_jobs import RunningJob
from router.messages import ServiceClass
from router.transport.base import Delivery
from tests.inference_worker.worker_bench import make_job

NO_DELIVERY = cast(Delivery, None)


def waiting(admission: Admission, service_class: ServiceClass, count: int) -> list[RunningJob]:
    jobs = [
        RunningJob(make_job(f"{service_class}-{n}", service_class=service_class), NO_DELIVERY) for n in range(count)
    ]
    for running in jobs:
        admission.queue(running)
    return jobs


def admitted(admission: Admission) -> list[str]:
    taken = []
    while (running := admission.admit()) is not None:
        taken.append(running.job.service_class)
    return taken


def test_capacity_is_the_batch_and_a_look_ahead() -> None:
    assert [capacity(seqs) for seqs in (1, 4, 20, 64)] == [2, 5, 21, 68]


def test_one_class_alone_fills_the_engine() -> None:
    for service_class in ServiceClass:
        admission = Admission(8)
        waiting(admission, service_class, 10)
        assert len(admitted(admission)) == 8
        assert admission.waiting == 2


def test_priority_goes_first_and_flex_keeps_its_floor() -> None:
    admission = Admission(8)
    for service_class in (ServiceClass.FLEX, ServiceClass.DEFAULT, ServiceClass.PRIORITY):
        waiting(admission, service_class, 4)
    assert admitted(admission) == ["flex", *["priority"] * 4, *["default"] * 3]


def test_a_place_that_is_given_back_is_given_to_the_next() -> None:
    admission = Admission(1)
    first, second, third = waiting(admission, ServiceClass.DEFAULT, 3)
    assert admission.admit() is first
    admission.leave(second)
    assert admission.admit() is None
    admission.leave(first)
    assert admission.admit() is third
    assert not admission.has_place(first)
