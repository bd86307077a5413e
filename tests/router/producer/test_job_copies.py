"""Copies of a job's message: how often and when it is published again."""

from __future__ import annotations

from dataclasses import replace

from router.producer.job_copies import JobCopies
from router.producer.recovery_events import BrokerHealth, Republish
from router.timings import Timings

TIMINGS = replace(Timings(), republish_limit=3, fast_republishes=2, pickup_timeout=1.0, start_timeout=5.0)


def test_one_copy_is_published_at_a_time() -> None:
    copies = JobCopies(TIMINGS)
    assert copies.publish(0) == [Republish(1)]
    assert copies.publish(0) == []
    copies.published(1, 0, 10.0, confirmed=False)
    assert copies.newest == 0
    assert copies.publish(0) == [Republish(2)]
    copies.published(2, 0, 10.0, confirmed=True)
    assert copies.newest == 2


def test_copies_without_progress_are_limited_and_progress_resets_the_limit() -> None:
    copies = JobCopies(TIMINGS)
    for number in (1, 2, 3):
        assert copies.publish(0) == [Republish(number)]
        copies.published(number, 0, float(number), confirmed=True)
    assert copies.publish(0) is None
    assert copies.publish(5) == [Republish(4)]


def test_a_new_copy_has_time_to_be_picked_up() -> None:
    copies = JobCopies(TIMINGS)
    assert not copies.in_pickup(0.0)
    copies.publish(0)
    copies.published(1, 0, 10.0, confirmed=True)
    assert copies.in_pickup(10.9)
    assert not copies.in_pickup(11.1)


def test_a_job_without_replies_is_published_again_while_a_worker_is_free() -> None:
    copies, broker = JobCopies(TIMINGS), BrokerHealth()
    copies.queued(100.0)
    assert copies.publish_overdue(broker, 104.9, has_capacity=True) == []
    assert copies.publish_overdue(broker, 105.0, has_capacity=False) == []
    assert copies.publish_overdue(broker, 105.0, has_capacity=True) == [Republish(1)]


def test_a_job_without_replies_is_published_once_after_the_broker_returns() -> None:
    copies, broker = JobCopies(TIMINGS), BrokerHealth(lost_at=200.0)
    copies.queued(100.0)
    assert copies.publish_overdue(broker, 204.9, has_capacity=False) == []
    assert copies.publish_overdue(broker, 205.0, has_capacity=False) == [Republish(1)]
    copies.published(1, 0, 205.1, confirmed=True)
    assert copies.publish_overdue(broker, 300.0, has_capacity=False) == []
