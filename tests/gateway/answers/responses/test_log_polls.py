"""Readers wait longer between two reads of a log the more of them there are."""

from __future__ import annotations

import asyncio

import pytest

from gateway.answers.responses.log_polls import MAX_POLLS, POLL_INTERVAL, LogPolls


async def test_many_readers_share_the_reads_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    polls = LogPolls()
    await asyncio.gather(*(polls.wait() for _ in range(100)))
    assert (waits[0], waits[-1]) == (POLL_INTERVAL, 100 / MAX_POLLS)
    await polls.wait()
    assert waits[-1] == POLL_INTERVAL
