"""Reading of HTML documents in a sandbox: malformed documents cost bounded time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from assistant.tools.page_text import LIMITS, PageReader
from assistant.tools.tool import TooLarge, ToolContext

ANNA, BOB = ToolContext("acme", "anna", "en"), ToolContext("acme", "bob", "en")
QUADRATIC = ["<!--", "<a ", "</a", "<?"]


@pytest.fixture
def reader() -> Iterator[PageReader]:
    reader = PageReader()
    yield reader
    reader.close()


async def test_documents_are_read(reader: PageReader) -> None:
    assert await reader.read("<title>Tytuł</title><p>Zażółć \ud800 gęślą</p>", ANNA) == ("Tytuł", "Zażółć ? gęślą")


@pytest.mark.parametrize("piece", QUADRATIC)
async def test_documents_that_take_quadratic_time_are_refused(piece: str) -> None:
    reader = PageReader(replace(LIMITS, wait_seconds=math.inf, busy_seconds=math.inf))  # only CPU time ends the reading
    with pytest.raises(TooLarge) as raised:
        await reader.read(piece * (1024 * 1024 // len(piece)), ANNA)
    reader.close()
    assert raised.value.message("pl") == "Ta strona jest zbyt złożona, by ją odczytać."


async def test_a_page_does_not_wait_for_anothers_malformed_ones(reader: PageReader) -> None:
    bombs = [asyncio.create_task(reader.read("<a " * 300_000, ANNA)) for _ in range(20)]
    await asyncio.sleep(0)
    assert await reader.read("<p>x", BOB) == ("", "x")
    assert sum(not each.done() for each in bombs) == 20
    await asyncio.gather(*bombs, return_exceptions=True)


async def test_the_event_loop_stays_free(reader: PageReader) -> None:
    reading = asyncio.create_task(reader.read("<a " * 300_000, ANNA))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 10
    with pytest.raises(TooLarge):
        await reading
