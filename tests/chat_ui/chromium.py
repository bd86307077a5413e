"""The machine's own Chromium, and visits to a page in it that notice every request and complaint. Knows no server."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

PATIENCE = 20_000
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
document.addEventListener("securitypolicyviolation", (event) => window.__violated(event.violatedDirective));
"""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser; skips where the machine has no Chromium."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium program")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=SWITCHES)
        yield browser
        await browser.close()


@dataclass
class Visit:
    """An open page, and every request and complaint that came out of it."""

    page: Page
    origin: str
    context: BrowserContext
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    async def to(cls, origin: str, browser: Browser, patience: float = PATIENCE) -> Visit:
        """An empty page of somebody who was never here; `patience`: for what is waited for, in milliseconds."""
        context = await browser.new_context(locale="en-GB", viewport={"width": 1280, "height": 800})
        context.set_default_timeout(patience)
        expect.set_options(timeout=patience)
        visit = cls(await context.new_page(), origin, context)
        await context.expose_binding("__violated", lambda _, rule: visit.complaints.append(f"against {rule}"))
        await context.add_init_script(WATCH_VIOLATIONS)
        visit.watch(visit.page)
        return visit

    def watch(self, page: Page) -> None:
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    async def ask(self, question: str) -> None:
        await self.page.get_by_label("Write a message").fill(question)
        await expect(self.page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
        await self.page.keyboard.press("Enter")

    async def walk(self, message: Locator, button: str) -> None:
        """To another version of a message; the server has been told when this returns, so a reload shows it again."""
        async with self.page.expect_response(lambda response: response.request.method == "PATCH"):
            await message.get_by_role("button", name=button).click()

    async def expect_clean(self) -> None:
        assert await self.page.evaluate("window.__pwned") is None
        assert [url for url in self.requests if not url.startswith(self.origin + "/")] == []
        assert self.complaints == []
