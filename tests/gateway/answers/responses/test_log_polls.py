"""Readers wait longer between two reads of a log the more of them their organisation has."""

from __future__ import annotations

import asyncio

import pytest

from gateway.answers.responses.log_polls import MAX_POLLS, POLL_INTERVAL, LogPolls


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that readers wait, in order; they do not really wait."""
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    return waits


async def test_many_readers_share_the_reads_of_a_process(waits: list[float]) -> None:
    polls = LogPolls()
    await asyncio.gather(*(polls.wait("org-1") for _ in range(100)))
    assert (waits[0], waits[-1]) == (POLL_INTERVAL, 100 / MAX_POLLS)
    await polls.wait("org-1")
    assert waits[-1] == POLL_INTERVAL


async def test_many_readers_of_one_organisation_do_not_slow_those_of_another(waits: list[float]) -> None:
    polls = LogPolls()
    await asyncio.gather(*(polls.wait("org-1") for _ in range(100)), polls.wait("org-2"), polls.wait("org-1"))
    assert waits[-2:] == [POLL_INTERVAL, 101 * 2 / MAX_POLLS]
