"""A search for an answer in Chromium over page and gateway, with a scripted worker that searches.

If `HEADRACE_SCREENSHOTS` names a folder, screenshots of the search are written there.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from router.bus import Bus
from router.messages import Finished, Job, Step, StepState, Task, Usage, UsagePart
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.chat_ui.chat_clients import eventually
from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.conftest import DIST
from tests.chat_ui.test_served_chat import ChattingPlatform
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.scripted_worker import ScriptedWorker, status, step_delta, usage

pytestmark = [pytest.mark.e2e, pytest.mark.store, pytest.mark.timeout(300)]

THINKER, JUDGE = "thinker", "judge"
PICTURES = os.environ.get("HEADRACE_SCREENSHOTS")
HOSTILE = "<img src=x onerror=window.__pwned=1> **bold** 41"
PATHS: list[dict[str, Any]] = [
    {"path": 1, "tokens": 12, "ended": "stop", "score": 0.2, "result": "41", "text": HOSTILE},
    {"path": 2, "tokens": 11, "ended": "stop", "score": 0.91, "result": "42", "text": "6 times 7 is 42."},
    {"path": 3, "tokens": 14, "ended": "stop", "score": 0.85, "result": "42", "text": "Seven sixes:\n\n42"},
    {"path": 4, "tokens": 40, "ended": "length", "score": 0.05, "text": "Let me think, and think"},
]


class Thinker:
    """Answers by a search that ends when `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.jobs: list[Job] = []

    @asynccontextmanager
    async def running(self, broker: MemoryBroker) -> AsyncIterator[None]:
        """Serve a model that searches, and have the gateway hear of a verifier."""
        bus = Bus(MemoryTransport(broker, "worker-thinker"))
        await bus.start()
        worker = ScriptedWorker(bus, THINKER, self._search, "worker-thinker")
        worker.status = msgspec.structs.replace(worker.status, searches=True)
        judge = status(JUDGE, "worker-judge", task=Task.SCORE)

        async def beat() -> None:
            while True:
                bus.send_status(worker.status)
                bus.send_status(judge)
                await asyncio.sleep(0.2)

        async with worker.running():
            beating = asyncio.create_task(beat())
            yield
            beating.cancel()
        await bus.close()

    async def _search(self, worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        if job.search is None:  # the title
            worker.send_token(job, attempt, 0, "Six sevens", finish_reason="stop")
            worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, 1)))
            return
        self.jobs.append(job)
        name = job.search.method.value
        running = Step(number=0, kind="search", name=name, state=StepState.RUNNING, data={"paths": len(PATHS)})
        worker.send(job, step_delta(job, attempt, 0, running))
        await self.go.wait()
        generated = UsagePart(model=THINKER, usage=Usage(prompt_tokens=0, completion_tokens=77))
        read = UsagePart(model=JUDGE, usage=Usage(prompt_tokens=120))
        paths = [{"parent": 0, "alive": False} | each for each in PATHS]
        votes = [["42", 1.76], ["41", 0.2], [None, 0.05]]
        data = {"paths": paths, "generated": 77, "scored": 120, "chosen": 2, "votes": votes}
        ended = Step(number=0, kind="search", name=name, state=StepState.DONE, data=data, parts=[generated, read])
        worker.send(job, step_delta(job, attempt, 0, ended))
        worker.send_token(job, attempt, 1, "6 times 7 is 42.", finish_reason="stop")
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, 1)))


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


async def picture(page: Page, name: str) -> None:
    if PICTURES:
        await page.emulate_media(color_scheme="light")
        await page.screenshot(path=Path(PICTURES) / f"search-{name}.png")


async def test_a_person_lets_the_model_think_longer(browser: Browser, database_url: str, tmp_path: Path) -> None:
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    broker, thinker = MemoryBroker(), Thinker()
    async with AsyncExitStack() as stack:
        served = ChattingPlatform(lambda name: MemoryTransport(broker, name), database_url, tmp_path / "home")
        await stack.enter_async_context(served)
        await served.start(gateways=1, workers=1, make_engine=lambda: CountingEngine(step_time=0.001))
        await stack.enter_async_context(thinker.running(broker))
        await eventually(lambda: served.gateways[0].models.find(JUDGE) is not None)
        owner = await served.owner()
        origin = served.urls[0].removesuffix("/v1")
        visit = await Visit.to(origin, browser, 60_000)
        page = visit.page
        cookies: Any = [{"name": name, "value": value, "url": origin} for name, value in owner.browser.cookies.items()]
        await visit.context.add_cookies(cookies)
        await page.goto(f"{origin}/")
        await page.get_by_role("button", name="Settings", exact=True).click()
        group = page.get_by_role("group", name="Think longer")
        await visit.choose_model(THINKER)
        await group.get_by_role("radio", name="Off").focus()
        for _ in range(3):
            await page.keyboard.press("ArrowDown")
        await expect(group.get_by_role("radio", name="Weighted vote")).to_be_checked()
        await group.get_by_label("Answers to try").select_option("4")
        await expect(group.get_by_text("At most 1,536 tokens beside the answer")).to_be_visible()
        assert await visit.violations() == []
        await picture(page, "settings")
        await page.keyboard.press("Escape")
        await expect(page.get_by_text("Think longer: Weighted vote, 4 answers")).to_be_visible()
        await expect(page.get_by_text("up to 3,072 tokens more")).to_be_visible()

        await visit.ask("What is 6 times 7?")
        card = page.get_by_role("region", name="Thinking longer · Weighted vote")
        await expect(card).to_contain_text("Trying several answers… · 4 answers")
        status_line = page.get_by_role("status").filter(has_text="Trying several answers…")
        await expect(status_line).to_be_attached()
        await expect(card.get_by_role("button", name="Stop", exact=True)).to_be_visible()
        await picture(page, "running")
        await page.reload()
        await expect(card).to_contain_text("Trying several answers…")
        thinker.go.set()
        await expect(card).to_contain_text("4 answers · 77 tokens written · 120 read by the verifier")
        await expect(card.get_by_role("list", name="Votes").get_by_role("listitem").first).to_contain_text("42: 1.76")
        await expect(page.locator(".answer .markdown")).to_have_text("6 times 7 is 42.")
        await card.get_by_text("Show the 4 answers").focus()
        await page.keyboard.press("Enter")
        await expect(card.get_by_text("Answer 1 chosen result 42 · score 0.91")).to_be_visible()
        await card.get_by_text("Answer 3 result 41").click()
        await expect(card.get_by_text(HOSTILE, exact=True)).to_be_visible()
        assert await page.locator(".answer img, .answer [style]").count() == 0
        assert await visit.violations() == []
        await picture(page, "done")
        await page.set_viewport_size({"width": 360, "height": 740})
        await page.get_by_role("button", name="Hide conversations", expanded=True).click()
        await card.scroll_into_view_if_needed()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await picture(page, "phone")
        await page.get_by_role("button", name="Settings", exact=True).click()
        await group.scroll_into_view_if_needed()
        await picture(page, "settings-phone")
        await page.keyboard.press("Escape")
        await page.set_viewport_size({"width": 1280, "height": 800})

        await page.locator(".answer").get_by_role("button", name="Another answer").click()
        await expect(page.locator(".answer").get_by_text("2 of 2")).to_be_attached()
        await expect(card).to_contain_text("77 tokens written")
        searches = [job.search for job in thinker.jobs]
        assert [(each.method, each.n, each.verifier) for each in searches if each] == [
            ("weighted_best_of_n", 4, JUDGE)
        ] * 2
        await visit.expect_clean()
        await served.settled()
        assert await served.differences() == []
