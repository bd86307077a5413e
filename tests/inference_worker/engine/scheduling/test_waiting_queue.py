from __future__ import annotations

from array import array

import pytest

from inference_worker.engine.scheduling.waiting_queue import WaitingQueue
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams


def sequence(name: str, tenant: str = "", requester: str = "") -> Sequence:
    return Sequence(name, 0, array("q", [1]), 1, SamplingParams(seed=0), 1, tenant=tenant, requester=requester)


def test_first_in_first_out_but_preempted_sequences_go_first() -> None:
    a, b, c = map(sequence, "abc")
    queue = WaitingQueue()
    queue.push(a)
    queue.push(b)
    queue.push_front(c)
    assert queue.peek() is c
    queue.discard(a)
    queue.discard(a)
    assert [queue.pop(), queue.pop()] == [c, b]
    assert queue.peek() is None
    assert len(queue) == 0


def test_flex_goes_last_its_preempted_sequences_first() -> None:
    flex, preempted, other, waiting = map(sequence, "abcd")
    flex.flex = preempted.flex = True
    queue = WaitingQueue()
    queue.push(flex)
    queue.push_front(preempted)
    assert queue.only_flex
    queue.push(waiting)
    queue.push_front(other)
    assert not queue.only_flex
    assert [queue.pop() for _ in range(len(queue))] == [other, waiting, preempted, flex]


@pytest.mark.parametrize(("noisy", "quiet_one"), [(("noisy", "r"), ("quiet", "r")), (("t", "noisy"), ("t", "quiet"))])
def test_tenants_and_requesters_are_served_by_usage_and_in_order_within_each(
    noisy: tuple[str, str], quiet_one: tuple[str, str]
) -> None:
    flood = [sequence(f"n{number}", *noisy) for number in range(3)]
    queue = WaitingQueue()
    for each in flood:
        queue.push(each)
    assert queue.pop() is flood[0]
    queue.charge(flood[0], prompt=5, output=5)
    quiet = [sequence(f"q{number}", *quiet_one) for number in range(2)]
    for each in quiet:
        queue.push(each)
    queue.charge(flood[0], output=2)
    assert [queue.pop() for _ in range(4)] == [quiet[0], quiet[1], *flood[1:]]
