"""The built page in Chromium against a stub of the API: user actions, and hostile text."""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, FilePayload, expect

from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.stub_chat import BUSY, BUSY_SECONDS, ENDLESS, HOSTILE_NAME, StubChat

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = Path(__file__).with_name("hostile_answer.md").read_text()


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


async def test_conversation(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    await visit.ask("Hello")
    await expect(page.locator(".answer strong")).to_have_text("bold")
    await expect(page.locator(".answer pre .hljs-built_in")).to_have_text("print")
    await expect(page.get_by_text("12 in")).to_be_visible()
    await expect(page.get_by_text("Answer: Hi! I am bold.")).to_be_attached()
    await expect(page).to_have_url(re.compile("/c/conv_"))
    await visit.ask("Again")
    await expect(page.locator(".answer").nth(1)).to_contain_text("Second.")
    assert stub.asked[1]["parent"] == next(iter(stub.conversations.values()))["messages"][1]["id"]
    await page.keyboard.press("Control+Shift+O")
    await expect(page.locator(".answer")).to_have_count(0)
    await page.go_back()
    await expect(page.locator(".answer")).to_have_count(2)
    assert await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"
    await visit.expect_clean()


async def test_a_model_is_chosen_with_the_mouse(visit: Visit, stub: StubChat) -> None:
    stub.models = ("large", "small")
    await visit.page.reload()
    await visit.choose_model("small")
    await expect(visit.page.get_by_role("radio")).to_have_count(0)
    await visit.ask("Hello")
    await expect(visit.page.locator(".answer strong")).to_have_text("bold")
    assert stub.asked[0]["settings"]["model"] == "small"
    await visit.expect_clean()


async def test_an_answer_outlives_the_page_and_is_shown_in_two_tabs(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    await visit.ask(ENDLESS)
    await expect(page.locator(".answer")).to_contain_text("more more")
    await page.reload()
    await expect(page.locator(".answer")).to_contain_text("more more")
    second = await visit.context.new_page()
    visit.watch(second)
    await second.goto(page.url)
    await expect(second.locator(".answer")).to_contain_text("more more")
    await second.get_by_role("button", name="Stop", exact=True).click()
    for tab in (second, page):
        await expect(tab.get_by_role("button", name="Send", exact=True)).to_be_visible()
        await expect(tab.locator(".answer")).to_contain_text("Stopped")
    written = next(iter(stub.writing.values())).message["text"]
    await expect(page.locator(".answer .markdown")).to_have_text(written.strip())
    await visit.expect_clean()


async def test_a_broken_stream_is_resumed(visit: Visit, stub: StubChat) -> None:
    stub.breaks = 2
    stub.answers["Long"] = "one two three four five six seven"
    await visit.ask("Long")
    await expect(visit.page.locator(".answer .markdown")).to_have_text(stub.answers["Long"])
    # All text may arrive before the last break; the end arrives only on an unbroken stream.
    await expect(visit.page.get_by_role("button", name="Another answer")).to_be_visible()
    assert stub.breaks == 0
    assert stub.resumed
    await visit.expect_clean()


async def test_branches(visit: Visit, stub: StubChat) -> None:
    page, answers = visit.page, visit.page.locator(".answer")
    await visit.ask("Hello")
    await expect(page.get_by_text("12 in")).to_be_visible()
    await page.get_by_role("button", name="Another answer").click()
    await expect(answers.get_by_text("2 of 2")).to_be_attached()
    await page.get_by_role("button", name="Edit the question").click()
    await page.get_by_role("textbox", name="Edit the question").fill("Again")
    await page.keyboard.press("Enter")
    await expect(answers).to_contain_text("Second.")
    question = page.locator(".question")
    await visit.walk(question, "Previous version")
    await expect(answers).to_contain_text("I am bold")
    await visit.walk(answers, "Previous version")
    await expect(answers.get_by_text("1 of 2")).to_be_attached()
    messages = next(iter(stub.conversations.values()))["messages"]
    await expect(page.locator(".answer .markdown")).to_have_count(1)
    await page.reload()
    await expect(answers.get_by_text("1 of 2")).to_be_attached()
    assert [message["parent"] for message in messages if message["role"] == "user"] == [None, None]
    await visit.expect_clean()


async def test_settings_and_files_are_sent_and_retry_waits_for_retry_after(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    await page.clock.install()
    await page.reload()
    await page.get_by_role("button", name="Settings", exact=True).click()
    await page.get_by_label("System prompt").fill("Be brief.")
    await page.get_by_label("Temperature").fill("0.5")
    await page.get_by_label("Longest answer").fill("9")
    await page.keyboard.press("Escape")
    await expect(page.get_by_label("System prompt")).to_have_count(0)
    contents = {HOSTILE_NAME: b"a,b", "x": b"\0"}
    files = [FilePayload(name=name, mimeType="text/plain", buffer=content) for name, content in contents.items()]
    await page.locator("input[type=file]").set_input_files(files)
    await expect(page.get_by_text("x is not a text file.")).to_be_visible()
    await visit.ask(BUSY)
    await expect(page.get_by_role("alert").filter(has_text="waiting right now")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile(r"Try again in \d+ s"))).to_be_disabled()
    await page.clock.run_for(1000 * BUSY_SECONDS)
    await page.get_by_role("button", name="Try again", exact=True).click()
    await expect(page.locator(".answer").get_by_text("2 of 2")).to_be_attached()
    assert stub.asked[0]["attachments"] == [{"name": HOSTILE_NAME, "text": "a,b"}]
    wanted = {"system": "Be brief.", "temperature": 0.5, "max_tokens": 9, "top_p": None, "model": stub.models[0]}
    assert wanted.items() <= stub.asked[0]["settings"].items()
    await visit.expect_clean()


async def test_hostile_text_is_inert(visit: Visit, stub: StubChat) -> None:
    stub.answers[HOSTILE.strip()] = HOSTILE
    stub.models = (*stub.models, f"stub/{HOSTILE_NAME}")
    page = visit.page
    await page.get_by_role("button", name="Model:").click()
    await page.get_by_role("radio", name=HOSTILE_NAME).click()
    await visit.ask(HOSTILE)
    answer = page.locator(".answer")
    await expect(answer).to_contain_text("ends here")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await expect(answer.locator("math msup")).to_have_count(1)
    forbidden = "img, script, iframe, style, form, input, base, meta, mglyph, svg[onload], [style], [id], [onerror]"
    assert await answer.locator(".block").locator(forbidden).count() == 0
    links = await answer.locator("a[href]").evaluate_all("links => links.map(link => [link.protocol, link.rel])")
    assert links
    assert {protocol for protocol, _ in links} == {"https:"}
    assert {rel for _, rel in links} == {"noopener noreferrer nofollow"}
    await expect(answer.get_by_role("link", name="Image: secret (evil.example)")).to_be_visible()
    await visit.expect_clean()


async def test_history(visit: Visit, stub: StubChat) -> None:
    now = time.time()
    for number in range(400):
        stub.add(f"Talk {number}", now - 3600 * number)
    stub.add(HOSTILE_NAME, now)
    page = visit.page
    await page.reload()
    entries = page.get_by_role("navigation", name="Conversations").get_by_role("listitem")
    await expect(entries.filter(has_text="Talk 0")).to_be_visible()
    assert await entries.count() < 60
    await page.get_by_role("link", name="Talk 0", exact=True).focus()
    while not await entries.filter(has_text="Talk 399").count():
        await page.keyboard.press("End")
    await page.keyboard.press("Control+K")
    await page.keyboard.type("talk 39")
    await expect(page.get_by_text("11 conversations found")).to_be_visible()
    await expect(entries.filter(has_text="Talk 39").first.locator("mark").first).to_have_text(re.compile("talk", re.I))
    await page.get_by_role("button", name="Actions: Talk 399").click()
    await page.get_by_role("menuitem", name="Rename").click()
    await page.get_by_label("Title").fill("Mills")
    await page.keyboard.press("Enter")
    await expect(entries.filter(has_text="Mills")).to_be_visible()
    await page.get_by_role("button", name="Actions: Mills").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(entries.filter(has_text="Mills")).to_have_count(0)
    assert "Mills" not in {row["title"] for row in stub.conversations.values()}
    await visit.expect_clean()


async def test_share(visit: Visit, stub: StubChat) -> None:
    page = visit.page
    await visit.ask("Hello")
    await expect(page.get_by_text("12 in")).to_be_visible()
    await page.get_by_role("button", name="Share").click()
    await page.get_by_role("button", name="Make a link").click()
    link = await page.get_by_label("Link", exact=True).input_value()
    reader = await visit.context.new_page()
    visit.watch(reader)
    await reader.goto(link)
    await expect(reader.locator(".answer strong")).to_have_text("bold")
    await expect(reader.get_by_role("button", name="Edit the question")).to_have_count(0)
    await page.get_by_role("button", name="Stop sharing").click()
    await expect(page.get_by_text("The link does not work any more.")).to_be_visible()
    await reader.reload()
    await expect(reader.get_by_text("not shared any more")).to_be_visible()
    await visit.expect_clean()
