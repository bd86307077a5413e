"""`python -m benchmarks.chat_page`: how smooth the built chat page is in Chromium, by the browser's own clock.

An answer of 20,000 tokens is streamed into it, and a list of 5,000 conversations is scrolled, while the time between
frames is taken (`requestAnimationFrame`). The API beside it is a stand-in: what is measured is the page.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from itertools import count, pairwise

import numpy as np
from playwright.async_api import Page, async_playwright

from benchmarks.results import Row, measured, write
from tests.chat_ui.conftest import DIST, StubServer
from tests.chat_ui.stub_chat import StubChat

TOKENS, CHARACTERS = 20_000, 4
PAUSE = 0.001
CONVERSATIONS = 5_000
SCROLLED_SECONDS, PIXELS_A_FRAME = 8, 120
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
WATCH = """
() => {
  window.__frames = [];
  const frame = (time) => { window.__frames.push(time); window.__watching = requestAnimationFrame(frame); };
  window.__watching = requestAnimationFrame(frame);
}
"""
SCROLL = """
(pixels) => {
  const box = document.querySelector("nav ul").parentElement.parentElement;
  const step = () => { box.scrollTop += pixels; window.__scrolling = requestAnimationFrame(step); };
  step();
}
"""
PASSAGE = """\
## Step {number}

The wheel turns with *{number}* buckets, and `flow()` says **how much** water the [race](https://example.org/) carries.
Its power is $P = \\eta \\rho g Q h$ where the head is small, and nobody should rely on it in a drought.

- a first point about the sluice, long enough to be broken into two lines on a narrow screen
- a second one
  1. with a part of its own

| river | flow | head |
|---|---:|---:|
| Raba | {number} | 3 |

```python
def power(flow: float, head: float) -> float:
    return 0.9 * 1000 * 9.81 * flow * head  # watts
```

"""


def long_answer() -> str:
    """Markdown of all kinds, as long as `TOKENS` tokens."""
    text = ""
    for number in count(1):
        text += PASSAGE.format(number=number)
        if len(text) >= TOKENS * CHARACTERS:
            return text[: TOKENS * CHARACTERS]
    raise AssertionError("a count has no end")


def row(what: str, frames: list[float], seconds: float) -> Row:
    """What the gaps between frames were; times in milliseconds."""
    gaps = np.array([later - earlier for earlier, later in pairwise(frames)])
    return {
        "what": what,
        "seconds": seconds,
        "frames": len(frames),
        "frames_per_second": 1000 * len(gaps) / float(gaps.sum()),
        "p50_ms": float(np.percentile(gaps, 50)),
        "p99_ms": float(np.percentile(gaps, 99)),
        "longest_ms": float(gaps.max()),
        "over_50_ms": int((gaps > 50).sum()),
        "over_100_ms": int((gaps > 100).sum()),
    }


async def stream(page: Page, stub: StubChat) -> Row:
    """An answer of `TOKENS` tokens, from the question to its last word."""
    stub.answers["Go on"] = long_answer()
    await page.get_by_label("Write a message").fill("Go on")
    await page.evaluate(WATCH)
    began = time.monotonic()
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Another answer").wait_for(timeout=300_000)
    took = time.monotonic() - began
    return row(f"an answer of {TOKENS:,} tokens", await page.evaluate("window.__frames"), took)


async def scroll(page: Page) -> Row:
    """The list from its top, read from the server as it is scrolled to."""
    await page.evaluate(WATCH)
    await page.evaluate(SCROLL, PIXELS_A_FRAME)
    await asyncio.sleep(SCROLLED_SECONDS)
    return row(f"a list of {CONVERSATIONS:,} conversations", await page.evaluate("window.__frames"), SCROLLED_SECONDS)


async def measure() -> tuple[list[Row], str]:
    """Both rows, and Chromium's version."""
    stub = StubChat(pause=PAUSE, piece=CHARACTERS)
    now = time.time()
    for number in range(CONVERSATIONS):
        stub.add(f"Conversation {number}", now - 3600 * number)
    rows = []
    with StubServer(stub.app(DIST)) as origin:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
            for measure_page in (lambda page: stream(page, stub), scroll):
                page = await browser.new_page(locale="en-GB", viewport={"width": 1280, "height": 800})
                await page.goto(origin)
                await page.get_by_role("link", name="Conversation 0", exact=True).wait_for()
                rows.append(await measure_page(page))
                await page.close()
            version = browser.version
            await browser.close()
    return rows, version


def main() -> None:
    """Measure and store the result."""
    rows, version = asyncio.run(measure())
    settings: Row = {"tokens": TOKENS, "pause_ms": 1000 * PAUSE, "conversations": CONVERSATIONS, "viewport": "1280x800"}
    print(write(measured("chat-page", settings, rows, {"chromium": version})))
    for line in rows:
        print(line)


if __name__ == "__main__":
    main()
