from __future__ import annotations

from array import array

from inference_worker.scheduling.waiting_queue import WaitingQueue
from inference_worker.sequence import Sequence
from router.messages import SamplingParams


def test_first_come_first_served_but_the_preempted_go_before() -> None:
    a, b, c = (Sequence(name, 0, array("q", [1]), 1, SamplingParams(seed=0), 1) for name in "abc")
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
