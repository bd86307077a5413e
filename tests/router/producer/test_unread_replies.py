"""Unread replies of a request: order, limit, errors and waiting."""

from __future__ import annotations

import asyncio

import pytest

from router.messages import Delta
from router.producer.errors import JobCancelled, RepliesLost, SlowClient
from router.producer.unread_replies import UnreadReplies


def delta(text: str = "") -> Delta:
    return Delta(job_id="j", attempt_id="a", start=0, token_ids=[1], text=text)


async def test_replies_are_read_in_order_and_once() -> None:
    unread = UnreadReplies(10_000)
    assert not await unread.wait(0.001)
    unread.append(0, delta("a"))
    unread.append(1, delta("b"))
    assert await unread.wait(1.0)
    assert [(job, reply) for job, reply in unread.peek()] == [(0, delta("a")), (1, delta("b"))]
    assert len(unread.take_all()) == 2
    assert not unread.peek()


async def test_a_waiting_reader_is_woken() -> None:
    unread = UnreadReplies(10_000)
    waiting = asyncio.create_task(unread.wait(5.0))
    await asyncio.sleep(0)
    unread.append(0, delta())
    assert await asyncio.wait_for(waiting, 1.0)


async def test_an_error_follows_the_replies_before_it_and_the_first_one_counts() -> None:
    failures: list[str] = []
    unread = UnreadReplies(10_000, lambda: failures.append("failed"))
    unread.append(0, delta())
    unread.fail(RepliesLost())
    unread.fail(JobCancelled())
    assert await unread.wait(1.0)
    unread.take_all()
    with pytest.raises(RepliesLost):
        await unread.wait(1.0)
    assert failures == ["failed"]


async def test_a_reader_that_is_too_far_behind_gets_an_error_instead() -> None:
    unread = UnreadReplies(1_000)
    unread.append(0, delta("x" * 500))
    unread.take_all()
    unread.append(0, delta("x" * 500))
    unread.append(0, delta("x" * 500))
    with pytest.raises(SlowClient):
        unread.peek()


async def test_discarding_drops_what_is_unread() -> None:
    unread = UnreadReplies(10_000)
    unread.append(0, delta())
    unread.discard(JobCancelled())
    with pytest.raises(JobCancelled):
        unread.peek()


async def test_work_before_the_jobs_is_completed_or_fails() -> None:
    unread = UnreadReplies(10_000)
    done: list[str] = []

    async def work(error: Exception | None = None) -> None:
        await asyncio.sleep(0)
        done.append("done")
        if error is not None:
            raise error

    await unread.complete(work())
    assert done == ["done"]
    with pytest.raises(ValueError, match="no"):
        await unread.complete(work(ValueError("no")))


@pytest.mark.parametrize("early", [True, False])
async def test_work_before_the_jobs_is_cancelled_when_the_request_fails(early: bool) -> None:
    unread = UnreadReplies(10_000)
    left: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("left")

    if early:
        unread.discard(JobCancelled())
    completing = asyncio.create_task(unread.complete(work()))
    await asyncio.sleep(0.01)
    unread.discard(JobCancelled())
    with pytest.raises(JobCancelled):
        await completing
    await asyncio.sleep(0)
    assert left == ([] if early else ["left"])
