"""The built page in a real Chromium against a stub of the API: what a person does, what hostile text must not."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import Page, async_playwright, expect

if TYPE_CHECKING:
    from conftest import StubOpenAI

pytestmark = pytest.mark.e2e

HOSTILE = Path(__file__).with_name("hostile_answer.md").read_text()
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
]
WATCH_VIOLATIONS = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(event.violatedDirective));
"""


@dataclass
class Visit:
    """An open page, and every request and complaint that came out of it."""

    page: Page
    origin: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    async def ask(self, question: str) -> None:
        await self.page.get_by_label("Write a message").fill(question)
        await self.page.keyboard.press("Enter")

    async def expect_clean(self) -> None:
        assert await self.page.evaluate("window.__pwned") is None
        assert await self.page.evaluate("window.__violations") == []
        assert [url for url in self.requests if not url.startswith(self.origin + "/")] == []
        assert self.complaints == []


@pytest.fixture
async def visit(origin: str, stub: "StubOpenAI") -> AsyncIterator[Visit]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium program")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=SWITCHES)
        page = await browser.new_page(locale="en-GB")
        visit = Visit(page, origin)
        page.on("request", lambda request: visit.requests.append(request.url))
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        await page.add_init_script(WATCH_VIOLATIONS)
        await page.goto(f"{origin}/#key={stub.key}")
        yield visit
        await browser.close()


async def test_conversation(visit: Visit, stub: "StubOpenAI") -> None:
    page = visit.page
    await visit.ask("Hello")
    await expect(page.locator(".answer strong")).to_have_text("bold")
    await expect(page.locator(".answer pre")).to_have_text("print(1)")
    await expect(page.get_by_text("12 in")).to_be_visible()
    await expect(page.get_by_role("status")).to_contain_text("Answer: Hi! I am bold.")
    await visit.ask("Again")
    await expect(page.locator(".answer").nth(1)).to_contain_text("Second.")
    assert [message["role"] for message in stub.requests[1]["messages"]] == ["user", "assistant", "user"]
    await page.get_by_role("button", name="New conversation").click()
    await expect(page.locator(".answer")).to_have_count(0)
    await visit.expect_clean()


async def test_key_is_in_memory_only(visit: Visit, stub: "StubOpenAI") -> None:
    page = visit.page
    await expect(page.get_by_label("Write a message")).to_be_visible()
    assert page.url == f"{visit.origin}/"
    stored = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    assert await page.evaluate(stored) == '[{},{},""]'
    assert not [url for url in visit.requests if stub.key in url]
    await page.reload()
    await expect(page.get_by_label("API key")).to_have_value("")
    await visit.expect_clean()


async def test_wrong_key_is_explained(visit: Visit) -> None:
    page = visit.page
    await page.get_by_role("button", name="Forget the key").click()
    await page.get_by_label("API key").fill("hr_live_wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("not valid")
    await expect(page.get_by_role("alert")).to_contain_text("No such key: <img")
    await visit.expect_clean()


async def test_stop_ends_the_job(visit: Visit, stub: "StubOpenAI") -> None:
    page = visit.page
    await visit.ask("ENDLESS")
    await expect(page.locator(".answer")).to_contain_text("more more")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    await expect(page.locator(".answer")).to_contain_text("Stopped")
    assert stub.abandoned.wait(10)
    await visit.expect_clean()


async def test_settings_reach_the_request_and_retry_waits_as_told(visit: Visit, stub: "StubOpenAI") -> None:
    page = visit.page
    await page.get_by_role("button", name="Settings", exact=True).click()
    await page.get_by_label("System prompt").fill("Be brief.")
    await page.get_by_label("Temperature").fill("0.5")
    await page.get_by_label("Longest answer").fill("9")
    await page.keyboard.press("Escape")
    await expect(page.get_by_label("System prompt")).to_have_count(0)
    await visit.ask("BUSY")
    await expect(page.get_by_role("alert")).to_contain_text("waiting right now")
    await page.get_by_role("button", name="Try again", exact=True).click()
    await expect(page.get_by_role("button", name="Try again in 1 s")).to_be_disabled()
    asked = stub.requests[-1]
    assert len(stub.requests) == 2
    assert (asked["temperature"], asked["max_completion_tokens"]) == (0.5, 9)
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    assert "top_p" not in asked
    await visit.expect_clean()


async def test_hostile_text_is_inert(visit: Visit, stub: "StubOpenAI") -> None:
    stub.answers[HOSTILE.strip()] = HOSTILE
    page = visit.page
    await page.get_by_label("Model").select_option(index=1)
    await visit.ask(HOSTILE)
    answer = page.locator(".answer")
    await expect(answer).to_contain_text("ends here", timeout=20_000)
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    await expect(answer.locator("math msup")).to_have_count(1)
    forbidden = "img, script, iframe, style, form, input, base, meta, mglyph, svg[onload], [style], [id], [onerror]"
    assert await answer.locator(".block").locator(forbidden).count() == 0
    links = await answer.locator("a[href]").evaluate_all("links => links.map(link => [link.protocol, link.rel])")
    assert links
    assert {protocol for protocol, _ in links} == {"https:"}
    assert {rel for _, rel in links} == {"noopener noreferrer nofollow"}
    await expect(answer.get_by_role("link", name="Image: secret (evil.example)")).to_be_visible()
    await visit.expect_clean()
