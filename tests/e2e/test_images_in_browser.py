"""Images in the web chat in a real Chromium: `headrace serve` with a tiny vision-language model of random weights.

If `HEADRACE_SCREENSHOTS` names a folder, screenshots of the composer and of the sent message are written there.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import FilePayload, Page, expect

from infra.launcher.readiness import free_port
from tests.chat_ui.chromium import Visit, chromium
from tests.e2e.launcher_process import Launched

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store, pytest.mark.timeout(400)]

TIMEOUT = 90_000
"""Timeout in milliseconds; long, because the machine may be busy."""
PICTURES = os.environ.get("HEADRACE_SCREENSHOTS")


@pytest.fixture
def launched(e2e_home: Path, vision_folder: Path) -> Iterator[Launched]:
    launched = Launched(["serve", "--model", str(vision_folder)], e2e_home, free_port())
    try:
        launched.until_ready()
        yield launched
    finally:
        launched.end()


@pytest_asyncio.fixture
async def visit(launched: Launched) -> AsyncIterator[Visit]:
    """A page of the owner, signed in by the launcher's link."""
    async with chromium() as browser:
        visit = await Visit.to(f"http://127.0.0.1:{launched.port}", browser, TIMEOUT)
        await visit.page.goto(re.findall(r"http://\S+#start=\S+", launched.output)[0])
        yield visit
        await visit.context.close()


def gradient() -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").resize((60, 40)).convert("RGB").save(file, "PNG")
    return file.getvalue()


async def picture(page: Page, name: str) -> None:
    if PICTURES is not None:
        await page.screenshot(path=Path(PICTURES) / f"{name}.png")


async def test_an_image_is_attached_previewed_answered_and_kept(visit: Visit) -> None:
    page = visit.page
    await expect(page.get_by_text("Images: PNG, JPEG, WebP or GIF")).to_be_visible()
    await page.get_by_role("button", name="Settings", exact=True).click()
    await page.get_by_label("Longest answer").fill("8")
    await page.get_by_role("button", name="Close settings").click()
    files = [
        FilePayload(name="gradient.png", mimeType="image/png", buffer=gradient()),
        FilePayload(name="fake.png", mimeType="image/png", buffer=b"no image"),
    ]
    await page.locator("form input[type=file]").set_input_files(files)
    await expect(page.get_by_text("fake.png: An image must be a PNG, JPEG, WebP or GIF file.")).to_be_visible()
    preview = page.get_by_role("list", name="Attached images").get_by_role("img", name="Image: gradient.png")
    await expect(preview).to_be_visible()
    assert await preview.evaluate("image => image.decode().then(() => image.naturalWidth)") == 60
    await picture(page, "images-composer")
    await visit.ask("What is this?")
    answer = page.locator("article.answer").last
    await expect(answer).to_have_attribute("aria-busy", "false")
    await expect(answer.get_by_text(re.compile(r"\d+ in · \d+ tokens? out"))).to_be_visible()
    await page.reload()
    shown = page.locator("article.question").get_by_role("img", name="Image: gradient.png")
    await expect(shown).to_be_visible()
    assert await shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 60
    await picture(page, "images-sent")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.reload()  # the list of conversations is closed on a phone
    await expect(shown).to_be_visible()
    await page.locator("form input[type=file]").set_input_files(files[:1])
    await expect(preview).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await picture(page, "images-phone")
    await page.get_by_role("button", name="Enlarge the image: gradient.png").click()
    await expect(page.get_by_role("dialog").get_by_role("img", name="Image: gradient.png")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Remove image 1: gradient.png").press("Enter")
    await expect(preview).to_have_count(0)
    await visit.ask("And again?")
    await expect(page.locator("article.answer")).to_have_count(2)
    await expect(page.locator("article.answer").last).to_have_attribute("aria-busy", "false")
    assert not visit.complaints
