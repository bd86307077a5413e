"""Running a consumer until a stop: its input ends first, then the work gets a grace period."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.consumer_runner import run_consumer


class Input:
    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def end(self) -> None:
        self.ended.set()


async def test_work_in_progress_is_finished_within_the_grace_period() -> None:
    stop, source, finished = asyncio.Event(), Input(), []

    async def work() -> None:
        await source.ended.wait()
        await asyncio.sleep(0)
        finished.append(True)

    stop.set()
    async with asyncio.timeout(10):
        await run_consumer(stop, work(), source.end, grace=5.0)
    assert finished


async def test_work_is_cancelled_after_the_grace_period() -> None:
    stop, source, cancelled = asyncio.Event(), Input(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(source.ended.is_set())
            raise

    stop.set()
    async with asyncio.timeout(10):
        await run_consumer(stop, work(), source.end, grace=0.01)
    assert cancelled == [True]  # the input had ended before


async def test_an_error_of_the_work_is_raised_and_ends_the_input() -> None:
    source = Input()

    async def work() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await run_consumer(asyncio.Event(), work(), source.end, grace=5.0)
    assert source.ended.is_set()


async def test_a_cancellation_cancels_the_work() -> None:
    source, started, cancelled = Input(), asyncio.Event(), []

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    task = asyncio.create_task(run_consumer(asyncio.Event(), work(), source.end, grace=5.0))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == [True]
