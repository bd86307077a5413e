"""Pages in the locally installed Chromium that record requests, console errors and policy violations."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

TIMEOUT = 20_000
AXE = Path(__file__).parents[2] / "chat_ui" / "web" / "node_modules" / "axe-core" / "axe.min.js"
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
    """Yield a browser; skip the test if Chromium is not installed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium program")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=SWITCHES)
        yield browser
        await browser.close()


@dataclass
class Visit:
    """An open page with all its requests, console errors and policy violations."""

    page: Page
    origin: str
    context: BrowserContext
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    async def to(cls, origin: str, browser: Browser, timeout_ms: float = TIMEOUT, *, locale: str = "en-GB") -> Visit:
        """Open the page in a fresh browser profile; with this timeout and language."""
        context = await browser.new_context(locale=locale, viewport={"width": 1280, "height": 800})
        context.set_default_timeout(timeout_ms)
        expect.set_options(timeout=timeout_ms)
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

    async def choose_model(self, name: str) -> None:
        """Select a model with the mouse."""
        await self.page.get_by_role("button", name=re.compile("^Model")).click()
        await self.page.get_by_role("group", name="Model").get_by_text(name, exact=True).click()
        await expect(self.page.get_by_role("button", name=f"Model: {name}", exact=True)).to_be_visible()

    async def walk(self, message: Locator, button: str) -> None:
        """Switch to another version of a message, and wait until the server has stored the selection."""
        async with self.page.expect_response(lambda response: response.request.method == "PATCH"):
            await message.get_by_role("button", name=button).click()

    async def violations(self) -> list[str]:
        """Return axe-core's violations in the light and the dark theme; skip the test if it is not installed."""
        if not AXE.is_file():
            pytest.skip("axe-core is not installed (npm ci in chat_ui/web)")
        # The page's security policy forbids other scripts, but the debugger protocol may evaluate one.
        debugger = await self.context.new_cdp_session(self.page)
        await debugger.send("Runtime.evaluate", {"expression": AXE.read_text()})
        await debugger.detach()
        found: list[str] = []
        for theme in ("light", "dark"):
            await self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            report = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            assert report["passes"]
            for each in report["violations"]:
                places = [node["target"] for node in each["nodes"]]
                found.append(f"{self.page.url} in {theme}: {each['id']} ({each['impact']}) at {places}")
        return found

    async def expect_clean(self) -> None:
        assert await self.page.evaluate("window.__pwned") is None
        assert [url for url in self.requests if not url.startswith(self.origin + "/")] == []
        assert self.complaints == []
