"""Waiting tasks continue together, after the delay of the first or on release."""

from __future__ import annotations

import asyncio

import pytest

from router.consumer import group_commit
from router.consumer.group_commit import GroupCommit


async def test_all_waiting_tasks_continue_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "COMMIT_DELAY", 0.02)
    moment = GroupCommit()
    gone: list[str] = []

    async def wait(name: str) -> None:
        await moment.wait()
        gone.append(name)

    first = asyncio.create_task(wait("first"))
    await asyncio.sleep(0)  # a longer one may end after the first was released
    second = asyncio.create_task(wait("second"))
    await first
    await asyncio.sleep(0)
    assert gone == ["first", "second"]
    await asyncio.wait_for(asyncio.gather(second, wait("the next")), 10)


async def test_release_continues_all_waiting_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "COMMIT_DELAY", 3600.0)
    moment = GroupCommit()
    moment.release()  # no task waits
    waiting = [asyncio.create_task(moment.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # a cancelled task does not block the others
    moment.release()
    await asyncio.wait_for(waiting[1], 10)
