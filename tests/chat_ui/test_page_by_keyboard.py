"""The built page in Chromium by keyboard only: focus order, and accessibility by axe-core."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.stub_chat import ENDLESS, StubChat

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

FURTHEST = 40
"""Presses of Tab that may be needed to reach an element: the page has no keyboard trap."""
NAME_OF_FOCUSED = """() => {
  const { activeElement: focused } = document;
  return focused.getAttribute("aria-label") ?? focused.labels?.[0]?.innerText ?? focused.innerText.trim();
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def visit(origin: str, stub: StubChat, browser: Browser) -> AsyncIterator[Visit]:
    stub.add("Mills", 2.0)
    stub.add("Rivers", 1.0)
    visit = await Visit.to(origin, browser)
    await visit.page.goto(f"{origin}/")
    yield visit
    await visit.context.close()


async def tab_to(page: Page, name: str, *, back: bool = False) -> None:
    """Press Tab until the element with this accessible name has the focus."""
    passed = []
    while not passed or passed[-1] != name:
        assert len(passed) < FURTHEST, passed
        await page.keyboard.press("Shift+Tab" if back else "Tab")
        passed.append(await page.evaluate(NAME_OF_FOCUSED))


async def test_a_conversation_without_a_mouse(visit: Visit) -> None:
    page, press = visit.page, visit.page.keyboard.press
    field, answers = page.get_by_label("Write a message"), page.locator(".answer")
    await expect(field).to_be_focused()
    await page.keyboard.type("One")
    await press("Shift+Enter")
    await page.keyboard.type("two")
    await page.reload()
    await expect(field).to_have_value("One\ntwo")  # the draft is kept
    await field.fill(ENDLESS)
    await press("Enter")
    await expect(answers).to_contain_text("more more")
    await expect(field).to_be_focused()
    await press("Escape")
    await expect(answers).to_contain_text("Stopped")
    await tab_to(page, "Another answer", back=True)
    await press("Enter")
    await expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    await expect(field).to_be_focused()  # the button that had the focus is gone
    await press("Escape")
    await expect(answers.get_by_text("2 of 2")).to_be_attached()
    await tab_to(page, "Previous version", back=True)
    await press("Enter")
    await expect(answers.get_by_text("1 of 2")).to_be_attached()
    await expect(page.get_by_role("button", name="Next version")).to_be_focused()
    await tab_to(page, "Edit the question", back=True)
    await press("Enter")
    await expect(page.get_by_role("textbox", name="Edit the question")).to_be_focused()
    await press("Escape")
    await expect(page.get_by_role("button", name="Edit the question")).to_be_focused()
    await press("Enter")
    await press("Control+A")
    await page.keyboard.type("Again")
    await press("Enter")
    await expect(answers).to_contain_text("Second.")
    await expect(field).to_be_focused()
    await press("Control+Shift+O")
    await expect(answers).to_have_count(0)
    await expect(field).to_be_focused()
    await visit.expect_clean()


async def test_lists_menus_and_dialogs_without_a_mouse(visit: Visit) -> None:
    page, press = visit.page, visit.page.keyboard.press
    field = page.get_by_label("Write a message")
    await expect(page.get_by_role("link", name="Rivers")).to_be_visible()
    await expect(field).to_be_focused()
    await press("Control+K")
    await expect(page.get_by_role("textbox", name="Search conversations")).to_be_focused()
    await press("Tab")
    await expect(page.get_by_role("link", name="Mills")).to_be_focused()
    await press("ArrowDown")
    await expect(page.get_by_role("link", name="Rivers")).to_be_focused()
    await press("Tab")
    actions = page.get_by_role("button", name="Actions: Rivers")
    await expect(actions).to_be_focused()
    await press("ArrowDown")
    await press("ArrowDown")
    await expect(page.get_by_role("menuitem", name="Pin")).to_be_focused()
    await press("Escape")
    await expect(page.get_by_role("menuitem")).to_have_count(0)
    await expect(actions).to_be_focused()
    await press("ArrowUp")
    await expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
    await press("r")
    await press("Enter")
    await expect(page.get_by_label("Title")).to_be_focused()
    await press("Escape")
    await expect(actions).to_be_focused()
    await press("Tab")  # skips the other rows
    await expect(page.get_by_label("Conversation", exact=True)).to_be_focused()
    await tab_to(page, "Settings", back=True)
    await press("Enter")
    await expect(page.get_by_role("heading", name="Settings")).to_be_focused()
    assert await visit.violations() == []
    await tab_to(page, "Keep as preset")
    await press("Enter")
    await press("Escape")
    await expect(page.get_by_role("button", name="Keep as preset")).to_be_focused()
    await press("Escape")
    await expect(page.get_by_role("button", name="Settings", exact=True)).to_be_focused()
    await press("Control+/")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert await visit.violations() == []
    await press("Escape")
    await press("Shift+Escape")
    await expect(field).to_be_focused()
    await visit.expect_clean()
