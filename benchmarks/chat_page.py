"""`python -m benchmarks.chat_page`: how smooth the built chat page is in Chromium, by the browser's own clock.

An answer of 20,000 tokens is streamed into it, and a list of 5,000 conversations is scrolled, while the browser tells
the times of its frames (`requestAnimationFrame`) and what blocked long ones (`long-animation-frame`). The page is what
is measured: the API beside it is a stand-in that does little, and the driver waits without looking.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count, pairwise
from statistics import median

import numpy as np
from playwright.async_api import Browser, Page, async_playwright

from benchmarks.results import Row, measured, write
from tests.chat_ui.conftest import DIST, StubServer
from tests.chat_ui.stub_chat import StubChat

RUNS = 3
TOKENS, CHARACTERS = 20_000, 4
WINDOW_SECONDS, TOKENS_A_WINDOW = 0.01, 20
"""As the platform sends them: the tokens of 10 ms are one event."""
CONVERSATIONS = 5_000
SCROLLED_SECONDS, PIXELS_A_FRAME = 4, 120
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
IDLE = "() => new Promise((idle) => requestIdleCallback(() => idle()))"
WATCH = """
() => {
  window.__frames = [];
  window.__long = [];
  const frame = (time) => { window.__frames.push(time); requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  const note = (list) => window.__long.push(...list.getEntries().map((entry) => entry.blockingDuration));
  new PerformanceObserver(note).observe({ type: "long-animation-frame" });
}
"""
UNTIL_WRITTEN = """
(answer) => new Promise((written) => {
  const look = () => { if (answer.getAttribute("aria-busy") === "false") written(); };
  new MutationObserver(look).observe(answer, { attributeFilter: ["aria-busy"] });
  look();
})
"""
"""Told by the page itself: a driver that looks at it again and again would be in the frames that are measured."""
SCROLL = """
([pixels, seconds]) => new Promise((scrolled) => {
  const box = document.querySelector("nav ul").parentElement.parentElement;
  const end = performance.now() + 1000 * seconds;
  const step = (time) => {
    if (time >= end) return scrolled();
    box.scrollTop += pixels;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})
"""
READ_ALL = """
([conversations, height]) => new Promise((read) => {
  const box = document.querySelector("nav ul").parentElement.parentElement;
  const step = () => {
    if (box.scrollHeight >= conversations * height) return read(box.scrollTop = 0);
    box.scrollTop = box.scrollHeight;
    requestAnimationFrame(step);
  };
  step();
})
"""
LINE_HEIGHT = 44
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


async def watched(page: Page, act: Callable[[], Awaitable[None]]) -> Row:
    """What the gaps between frames were while something was done; times in milliseconds but for `seconds`."""
    await page.evaluate(IDLE)
    await page.evaluate(WATCH)
    began = time.monotonic()
    await act()
    seconds = time.monotonic() - began
    gaps = np.array([later - earlier for earlier, later in pairwise(await page.evaluate("window.__frames"))])
    return {
        "seconds": seconds,
        "frames_per_second": 1000 * len(gaps) / float(gaps.sum()),
        "p50_ms": float(np.percentile(gaps, 50)),
        "p99_ms": float(np.percentile(gaps, 99)),
        "longest_ms": float(gaps.max()),
        "over_50_ms": int((gaps > 50).sum()),
        "over_100_ms": int((gaps > 100).sum()),
        "blocked_ms": float(sum(await page.evaluate("window.__long"))),
    }


async def stream(page: Page) -> Row:
    """An answer of `TOKENS` tokens, from the question to its last word."""
    await page.get_by_label("Write a message").fill("Go on")

    async def ask() -> None:
        await page.keyboard.press("Enter")
        await page.locator("article.answer").evaluate(UNTIL_WRITTEN)

    return await watched(page, ask)


async def scroll(page: Page) -> Row:
    """The list from its top, read from the server as it is scrolled to."""

    async def act() -> None:
        await page.evaluate(SCROLL, [PIXELS_A_FRAME, SCROLLED_SECONDS])

    return await watched(page, act)


async def scroll_what_is_read(page: Page) -> Row:
    """The list from its top, when the page has all of it."""
    await page.evaluate(READ_ALL, [CONVERSATIONS, LINE_HEIGHT])
    return await scroll(page)


MEASURED: dict[str, Callable[[Page], Awaitable[Row]]] = {
    f"an answer of {TOKENS:,} tokens": stream,
    f"a list of {CONVERSATIONS:,} conversations, as it is read": scroll,
    f"a list of {CONVERSATIONS:,} conversations, all read": scroll_what_is_read,
}


async def in_a_new_page(browser: Browser, origin: str, measure_page: Callable[[Page], Awaitable[Row]]) -> Row:
    """Nothing is in its cache."""
    page = await browser.new_page(locale="en-GB", viewport={"width": 1280, "height": 800})
    await page.goto(origin)
    await page.get_by_role("link", name="Conversation 0", exact=True).wait_for()
    row = await measure_page(page)
    await page.close()
    return row


def median_of(what: str, runs: Sequence[Row]) -> Row:
    """Of every column, and the longest frame of all."""
    columns: Row = {name: median(float(str(run[name])) for run in runs) for name in runs[0]}
    return {"what": what, **columns, "longest_of_all_ms": max(float(str(run["longest_ms"])) for run in runs)}


async def measure() -> tuple[list[Row], str]:
    """The rows, and Chromium's version."""
    stub = StubChat({"Go on": long_answer()}, pause=WINDOW_SECONDS, piece=TOKENS_A_WINDOW * CHARACTERS)
    now = time.time()
    for number in range(CONVERSATIONS):
        stub.add(f"Conversation {number}", now - 3600 * number)
    rows = []
    with StubServer(stub.app(DIST)) as origin:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
            for what, measure_page in MEASURED.items():
                runs = [await in_a_new_page(browser, origin, measure_page) for _ in range(RUNS)]
                rows.append(median_of(what, runs))
            version = browser.version
            await browser.close()
    return rows, version


def main() -> None:
    """Measure and store the result."""
    rows, version = asyncio.run(measure())
    settings: Row = {
        "runs": RUNS,
        "tokens": TOKENS,
        "window_ms": 1000 * WINDOW_SECONDS,
        "tokens_a_window": TOKENS_A_WINDOW,
        "conversations": CONVERSATIONS,
        "viewport": "1280x800",
    }
    print(write(measured("chat-page", settings, rows, {"chromium": version})))
    for line in rows:
        print(line)


if __name__ == "__main__":
    main()
