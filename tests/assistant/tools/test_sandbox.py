"""Sandboxed work of tools: one person's work does not delay another's, and failures have sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from assistant.tools.sandbox import ToolSandbox
from assistant.tools.sentences import Sentence
from assistant.tools.tool import TooLarge, ToolContext, Unavailable
from runtime.sandbox.limits import WorkLimits

ANNA = ToolContext("acme", "anna", "en")
LIMITS = WorkLimits(64 * 2**20, cpu_seconds=0.3, output_bytes=2**20, message_bytes=2**20, wait_seconds=60.0)
TOO_COSTLY, UNREADABLE = Sentence("too costly", "za drogie"), Sentence("unreadable", "nieczytelne")


def sandbox(name: str) -> ToolSandbox:
    work = f"tests.fakes.hostile_work:{name}"
    return ToolSandbox(work, LIMITS, too_costly=TOO_COSTLY, unreadable=UNREADABLE)


@pytest.fixture
def loop() -> Iterator[ToolSandbox]:
    found = sandbox("loop")
    yield found
    found.close()


async def test_what_waits_behind_too_costly_work_of_the_same_person_is_refused(loop: ToolSandbox) -> None:
    other = replace(ANNA, requester="bob")
    works = [asyncio.create_task(loop.run(b"", each)) for each in (ANNA, ANNA, ANNA, other)]
    refused = await asyncio.gather(*works, return_exceptions=True)
    assert [type(each) for each in refused] == [TooLarge, Unavailable, Unavailable, TooLarge]
    assert str(refused[0]) == "too costly"
    assert str(refused[1]).startswith("Another request of yours took too long")


async def test_work_that_fails_twice_says_so() -> None:
    failing = sandbox("fail")
    with pytest.raises(Unavailable, match="unreadable"):
        await failing.run(b"", ANNA)
    failing.close()
