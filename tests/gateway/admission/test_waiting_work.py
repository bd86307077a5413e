"""The work ahead of a job: its requester's own, and as much at most of each competitor's."""

from __future__ import annotations

import pytest

from gateway.admission.waiting_work import OthersWork, QueuedEntry, WaitingQueue, Work
from tests.contract.examples import JOB, msgspec_replace

NO_OTHERS = OthersWork()


def enter(queue: WaitingQueue, tenant: str, requester: str, count: int, tokens: float = 10.0) -> list[QueuedEntry]:
    entries = []
    for _ in range(count):
        queue.last += 1
        entries.append(QueuedEntry(msgspec_replace(JOB, tenant=tenant, requester=requester), queue.last, tokens))
        queue.enter(entries[-1])
    return entries


def ahead(queue: WaitingQueue, tenant: str, requester: str, number: int | None = None) -> Work:
    return queue.work_ahead(NO_OTHERS, tenant, requester, number, 10.0)


def test_at_most_as_much_of_each_competitor_is_ahead() -> None:
    queue = WaitingQueue()
    enter(queue, "t", "flood", 100)
    enter(queue, "t", "other", 1)
    enter(queue, "another", "flood", 100)
    mine = enter(queue, "t", "mine", 3)
    # My three and the new one: four of the flood, one of the other; of the other tenant as many as of this one.
    assert ahead(queue, "t", "mine") == Work(3 + 4 + 1 + 9, 170)
    assert ahead(queue, "t", "mine", mine[0].number) == Work(0 + 1 + 1 + 3, 50)
    assert ahead(queue, "another", "new") == Work(0 + 1 + 2, 30)


def test_entries_that_leave_are_ahead_of_none() -> None:
    queue = WaitingQueue()
    for entry in enter(queue, "t", "a", 2) + enter(queue, "u", "a", 1):
        queue.leave(entry)
    assert queue.tenants == {}
    assert queue.total == Work()
    assert ahead(queue, "t", "a") == Work()


def test_work_at_other_gateways_counts_as_if_it_were_here() -> None:
    others = OthersWork(
        Work(30, 300), {"t": Work(20, 200)}, {"t": {"flood": Work(19, 190), "mine": Work(1, 10)}}, Work(10, 100)
    )
    queue = WaitingQueue()
    enter(queue, "t", "flood", 5)
    (mine,) = enter(queue, "t", "mine", 1)
    assert queue.work_ahead(others, "t", "mine", None, 10.0) == Work(2 + 3 + 10, 150)
    before = queue.work_ahead(
        others, "t", "mine", mine.number, 10.0
    )  # half of mine elsewhere, eleven twelfths of the unknown
    assert before.sequences == pytest.approx(0.5 + 1.5 + 10 * 5.5 / 6)
    assert queue.work_ahead(others, "u", "new", None, 10.0) == Work(1 + 10, 110)


def test_work_without_tokens_is_ahead_as_a_whole() -> None:
    queue = WaitingQueue()
    enter(queue, "t", "empty", 2, tokens=0.0)
    assert ahead(queue, "t", "mine") == Work(2, 0)
