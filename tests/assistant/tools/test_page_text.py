"""Reading of HTML documents in a sandbox: malformed documents cost bounded time."""

from __future__ import annotations

import asyncio
import time

import pytest

from assistant.tools.page_text import read_html
from assistant.tools.tool import TooLarge


async def test_documents_are_read() -> None:
    assert await read_html("<title>Tytuł</title><p>Zażółć \ud800 gęślą</p>") == ("Tytuł", "Zażółć ? gęślą")


@pytest.mark.parametrize("piece", ["<!--", "<a ", "</a", "<?"])
async def test_documents_that_take_quadratic_time_are_refused(piece: str) -> None:
    began = time.monotonic()
    with pytest.raises(TooLarge) as raised:
        await read_html(piece * (1024 * 1024 // len(piece)))
    assert time.monotonic() - began < 8
    assert raised.value.message("pl") == "Ta strona jest zbyt złożona, by ją odczytać."


async def test_the_event_loop_stays_free() -> None:
    reading = asyncio.create_task(read_html("<a " * 300_000))
    longest, last = 0.0, time.monotonic()
    while not reading.done():
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert longest < 0.9
    with pytest.raises(TooLarge):
        await reading
