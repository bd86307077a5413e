"""The table of attempts: child jobs that two assistants opened with one id are two jobs."""

from __future__ import annotations

from typing import cast

import pytest

from router.consumer.attempts import AttemptTable, RecentJobIds
from router.transport.base import Delivery
from tests.fakes.jobs import make_job
from tests.router.consumer.test_admission import NO_DELIVERY, Taken


def taken(reply_to: str) -> Taken:
    return Taken(make_job(id="p-a", reply_to=reply_to, deadline=0), NO_DELIVERY)


def test_attempts_of_one_id_are_told_apart_by_where_their_replies_go() -> None:
    table: AttemptTable[Taken] = AttemptTable()
    first, second = taken("assistant-1"), taken("assistant-2")
    table.add(first)
    table.add(second)
    assert table.of_job("p-a", "assistant-1") is first
    assert table.of_job("p-a", "assistant-2") is second
    assert table.of_job("p-a") is second
    assert table.of_job("p-a", "assistant-3") is None
    table.remove(second)
    assert table.of_job("p-a") is first
    table.remove(first)
    table.remove(first)
    assert table.of_job("p-a") is None
    assert len(table) == 0


def test_a_cancel_of_one_assistants_child_leaves_the_others() -> None:
    cancelled = RecentJobIds()
    cancelled.add("p-a", "assistant-1")
    assert taken("assistant-1").job in cancelled
    assert taken("assistant-2").job not in cancelled
    cancelled.add("p-a")
    assert taken("assistant-2").job in cancelled


class FirstDelivery:
    """A message that was delivered for the first time."""

    redelivered, delivery_count = False, 0


@pytest.mark.parametrize(
    ("delivered", "continues", "asks"), [([], False, False), ([[1]], True, False), ([[1]], False, True)]
)
def test_a_job_with_output_waits_for_a_decision_at_a_worker_that_can_not_continue_it(
    delivered: list[list[int]], continues: bool, asks: bool
) -> None:
    class AtProvider(Taken):
        pass

    AtProvider.continues = continues  # type: ignore[assignment,method-assign]
    attempt = AtProvider(make_job(delivered=delivered), cast(Delivery, FirstDelivery()))
    assert attempt.may_resume is asks
