"""An assistant's steps in Chromium against a stub of the API: cards, their accessibility, and hostile data."""

import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import Browser, expect

from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.stub_chat import HOSTILE_NAME, StubChat

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SOURCE = {"name": "Open-Meteo", "url": "https://open-meteo.com/", "licence": "CC BY 4.0"}
WEATHER: dict[str, Any] = {
    "type": "weather",
    "place": {"name": "Gdańsk", "region": "Pomorskie", "country": "Poland"},
    "now": {"at": "2026-11-24T15:00", "temperature": 4.4, "feels_like": 1.2, "humidity": 81, "wind": 20.2, "code": 61}
    | {"description": "light rain"},
    "hours": [
        {
            "at": f"2026-11-{24 + hour // 24}T{hour % 24:02}:00",
            "temperature": 3 + 4 * math.sin(hour / 4),
            "precipitation": max(0, hour % 7 - 4),
        }
        for hour in range(15, 39)
    ],
    "days": [
        {"date": f"2026-11-{24 + day}", "min": day - 3, "max": day + 4, "code": 3, "description": "overcast"}
        | {"precipitation": 0.4 * day}
        for day in range(5)
    ],
    "units": "metric",
    "source": SOURCE,
}
X = [each / 20 for each in range(-100, 101)]
MATHEMATICS = {
    "type": "mathematics",
    "operation": "differentiate",
    "input_latex": r"\frac{d}{dx} \left(\ln x\right)",
    "result_latex": r"\frac{1}{x}",
    "result_text": "1/x",
    "plot": {
        "variable": "x",
        "x": X,
        "y": [1 / each if each else None for each in X],
        "x_label": "x",
        "y_label": "1/x",
    },
}
ARTICLE = {
    "type": "article",
    "title": "Water wheel",
    "extract": "A water wheel is a machine that converts the energy of flowing water into rotation.",
    "url": "https://en.wikipedia.org/wiki/Water_wheel",
    "language": "en",
    "source": {"name": "Wikipedia", "url": "https://en.wikipedia.org/wiki/Water_wheel", "licence": "CC BY-SA 4.0"},
}
BLOB = "blob_abcdefghijklmnopqrstuvwx"
ADDRESS = f"/v1/blobs/{BLOB}?expires=1&signature=ab"
IMAGE = {"type": "image", "prompt": "Kot", "prompt_sent": "A cat", "images": [{"blob": BLOB, "url": ADDRESS}]}


def step(number: int, name: str, state: str = "done", kind: str = "tool", **data: Any) -> dict[str, Any]:
    return {"number": number, "kind": kind, "name": name, "state": state, "data": data}


RUNNING = step(2, "weather", "running", arguments={"place": "Gdańsk"})
FAILED = step(0, "weather", "failed", error={"code": "not_found", "message": "There is no place called Xyz."})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def visit(origin: str, browser: Browser) -> AsyncIterator[Visit]:
    visit = await Visit.to(origin, browser)
    await visit.page.goto(f"{origin}/")
    yield visit
    await visit.context.close()


def scripted(stub: StubChat, question: str, *steps: dict[str, Any], answer: str = "It rains.") -> None:
    stub.steps[question], stub.answers[question] = list(steps), answer


async def test_a_tool_runs_and_its_result_is_a_card(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    rewrite = step(0, "rules", kind="rewrite", to="Weather in Gdańsk?")
    route = step(1, "classifier", kind="route", choice="weather", arguments={"place": "Gdańsk"})
    scripted(stub, "And there?", rewrite, route, RUNNING, RUNNING | step(2, "weather", result=WEATHER))
    stub.step_pause = 3.0
    await visit.ask("And there?")
    card = page.get_by_role("region", name=re.compile("^Weather · Gdańsk"))
    status = page.get_by_role("status")
    await expect(card.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    await expect(card).to_contain_text("Looking up the weather…")
    await expect(status.filter(has_text="Looking up the weather…")).to_be_attached()
    await page.reload()
    await expect(card).to_contain_text("light rain")
    await expect(page.locator(".answer .markdown")).to_have_text("It rains.")
    await expect(page.get_by_text("Understood as: Weather in Gdańsk?")).to_be_visible()
    await expect(page.get_by_text("Looked up: weather · Gdańsk")).to_be_visible()
    await expect(status.filter(has_text="Answer: It rains.")).to_be_attached()
    chart = card.get_by_role("slider")
    await chart.focus()
    await page.keyboard.press("End")
    await expect(chart).to_have_attribute("aria-valuetext", re.compile(r"^14:00 · -?\d+ °C · \d+ mm$"))
    assert await visit.violations() == []
    await visit.expect_clean()


async def test_a_running_tool_can_be_stopped(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    scripted(stub, "Slow", RUNNING)
    stub.step_pause = 60.0
    await visit.ask("Slow")
    card = page.get_by_role("region", name="Weather · Gdańsk")
    await card.get_by_role("button", name="Stop", exact=True).click()
    await expect(page.locator(".answer").get_by_text("Stopped", exact=True)).to_be_visible()
    assert next(iter(stub.writing.values())).stopped
    await visit.expect_clean()


async def test_reasoning_is_folded_and_opens_by_keyboard(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    thinking = step(0, "", "running", kind="reasoning", text="Clouds", seconds=1)
    scripted(
        stub, "Why?", thinking, thinking | {"state": "done", "data": {"text": "<b>Clouds</b> rise.", "seconds": 12.3}}
    )
    stub.step_pause = 3.0
    await visit.ask("Why?")
    await expect(page.get_by_text("Thinking… 1 s")).to_be_visible()
    await expect(page.get_by_role("status").filter(has_text="The model is thinking.")).to_be_attached()
    thoughts = page.locator("summary", has_text="Thought for 12 s")
    await expect(thoughts).to_be_visible()
    text = page.get_by_text("<b>Clouds</b> rise.", exact=True)
    await expect(text).not_to_be_visible()
    await thoughts.focus()
    await page.keyboard.press("Enter")
    await expect(text).to_be_visible()
    await expect(page.get_by_role("status").filter(has_text="Answer: It rains.")).to_be_attached()
    assert await visit.violations() == []
    await visit.expect_clean()


async def test_a_failed_tool_says_why_and_is_tried_again(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    scripted(stub, "Xyz", FAILED, answer="I don't know that place.")
    await visit.ask("Xyz")
    card = page.get_by_role("region", name="Weather")
    await expect(card.get_by_text("There is no place called Xyz.", exact=True)).to_be_visible()
    assert await visit.violations() == []
    await card.get_by_role("button", name="Try again").click()
    await expect(page.locator(".answer").get_by_text("2 of 2")).to_be_attached()
    await visit.expect_clean()


async def test_mathematics_articles_and_summaries(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    summary = step(0, "model", kind="summary", dropped=6, kept=4)
    steps = [
        step(1, "math", arguments={"expression": "ln x"}, result=MATHEMATICS),
        step(2, "wikipedia", result=ARTICLE),
    ]
    scripted(stub, "Derive", summary, *steps)
    await visit.ask("Derive")
    card = page.get_by_role("region", name="Mathematics · ln x")
    await expect(card.locator("math mfrac")).to_have_count(2)
    await expect(card.get_by_role("slider", name="Plot of 1/x from -5 to 5")).to_be_visible()
    line = await card.locator("path").get_attribute("d")
    assert line is not None
    assert line.count("M") == 2
    await expect(page.get_by_text("the model did not read its 6 oldest messages")).to_be_visible()
    await expect(page.get_by_text("CC BY-SA 4.0")).to_be_visible()
    assert await visit.violations() == []
    await visit.expect_clean()


async def test_images_are_enlarged_and_downloaded(visit: Visit, stub: StubChat, tmp_path: Path) -> None:
    page = visit.page
    Image.linear_gradient("L").resize((512, 512)).save(tmp_path / "a.png")
    stub.images[BLOB] = (tmp_path / "a.png").read_bytes()
    scripted(stub, "Draw", step(0, "image", arguments={"prompt": "Kot"}, result=IMAGE), answer="")
    await visit.ask("Draw")
    image = page.get_by_role("img", name="Image: Kot")
    await expect(image).to_be_visible()
    await expect(page.get_by_text("Answer: The result is shown above.")).to_be_attached()
    assert await visit.violations() == []
    await page.get_by_role("button", name="Enlarge the image: Kot").press("Enter")
    dialog = page.get_by_role("dialog", name="Kot")
    await expect(dialog.get_by_role("img")).to_be_visible()
    async with page.expect_download() as downloading:
        await dialog.get_by_role("link", name="Download").click()
    downloaded = await downloading.value
    assert downloaded.suggested_filename == "image-1.png"
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await visit.expect_clean()


async def test_texts_and_hostile_results_render_no_image(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    stub.images[BLOB] = b""
    foreign = {"images": [{"blob": BLOB, "url": "https://evil.example/a.png"}, {"url": "/api/me"}]}
    mcp = {"type": "mcp", "server": "s", "tool": "t", "content": [{"type": "text", "text": HOSTILE_NAME}]}
    steps = [
        step(0, "image", result=IMAGE | foreign),
        step(1, "mcp.s.t", result=mcp),
        step(2, HOSTILE_NAME, result=ARTICLE | {"url": "javascript:alert(1)", "title": HOSTILE_NAME}),
        step(3, "web_page", result={"type": "page", "title": [], "url": {}, "text": None}),
        step(4, "math", result=MATHEMATICS | {"result_latex": r"\href{javascript:alert(1)}{x} \includegraphics{y}"}),
        step(5, "weather", result=WEATHER | {"hours": [{"at": "x"}], "days": [None]}),
    ]
    scripted(stub, "Odd", *steps, answer=f"![cat]({ADDRESS}) ![cat](http://evil.example{ADDRESS}) [cat]({ADDRESS})")
    await visit.ask("Odd")
    await expect(page.get_by_role("link", name="Image: cat (evil.example)")).to_be_visible()
    await expect(page.get_by_text("The image is not available any more.")).to_be_visible()
    assert await page.locator(".answer img").count() == 0
    assert await page.locator('.answer a[href*="javascript"], .answer a[href^="/v1"]').count() == 0
    assert await page.locator(".answer [style]").count() == 0
    await visit.expect_clean()


async def test_tools_are_switched_off_for_a_conversation(visit: Visit, stub: StubChat) -> None:
    stub.tools = ("weather", "mcp.shop.search")
    page = visit.page
    await page.reload()
    await page.get_by_role("button", name="Settings", exact=True).click()
    await page.get_by_role("switch", name="Weather").click()
    assert await visit.violations() == []
    await page.keyboard.press("Escape")
    await visit.ask("Hello")
    await expect(page.locator(".answer strong")).to_have_text("bold")
    assert stub.asked[0]["settings"]["tools_off"] == ["weather"]
    await visit.expect_clean()
