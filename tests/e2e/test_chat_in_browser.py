"""A tour of the web chat in a real Chromium: `headrace serve`, the real model, the real store.

If `HEADRACE_SCREENSHOTS` names a folder (`make pictures`), the tour runs on `headrace up`, over RabbitMQ and with two
workers, one of which is killed; and screenshots of its steps are written there.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest
import pytest_asyncio
from openpyxl.worksheet.worksheet import Worksheet
from playwright.async_api import Browser, FilePayload, Locator, Page, ViewportSize, expect

from infra.launcher.readiness import free_port
from tests.chat_ui.chromium import Visit, chromium
from tests.e2e.launcher_process import MODEL, Launched

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store, pytest.mark.asyncio(loop_scope="module")]

TIMEOUT = 60_000
"""Timeout in milliseconds; long, because the machine may be busy."""
PASSWORD = "correct horse battery"
PICTURES = os.environ.get("HEADRACE_SCREENSHOTS")
ASKED = "List three facts about Zanzibar as a Markdown list."
ENDLESS = "Write a very long story about a river."
TRIES = 100
"""Timeout in milliseconds for changes that take effect with a delay, such as a new limit."""
REPEATING = 0.8
"""A repetition penalty with which the model repeats itself, so that its answer ends only when stopped."""
PHONE: ViewportSize = {"width": 390, "height": 844}
FORMULAS = {"-2+3": "+1-1", "@SUM(1+1)": "=1+1", "+cmd|' /C calc'!A0": "@A1", "=HYPERLINK('http://x')": "-1"}
SECTIONS = ("people", "projects", "keys", "moderation", "budgets", "limits", "prices", "models", "usage", "audit")


async def picture(page: Page, name: str, *, as_it_is: bool = False) -> None:
    """Take pictures in light, dark and phone layout; `as_it_is`: without reloading, for an open dialog or list."""
    if PICTURES is None:
        return
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        await drawn(page)
        await page.screenshot(path=Path(PICTURES) / f"{name}-{theme}.png")
    await page.emulate_media(color_scheme="light")
    phone = page if as_it_is else await page.context.new_page()
    wide = page.viewport_size
    await phone.set_viewport_size(PHONE)
    if not as_it_is:
        await phone.goto(page.url)
        await loaded(phone)
    await drawn(phone)
    await phone.screenshot(path=Path(PICTURES) / f"{name}-phone.png")
    if not as_it_is:
        await phone.close()
    elif wide is not None:
        await page.set_viewport_size(wide)


async def drawn(page: Page) -> None:
    """Wait until the page is redrawn after a change of theme or width."""
    await page.evaluate("new Promise((done) => setTimeout(() => requestAnimationFrame(done), 300))")


async def loaded(page: Page) -> None:
    """Wait until the page is loaded and has no spinner."""
    await expect(page.get_by_role("heading", level=1).first).to_be_attached()
    await expect(page.get_by_text("Loading…")).to_have_count(0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def launched(e2e_home: Path) -> Iterator[Launched]:
    """A ready `headrace serve`, or `headrace up` if pictures are taken."""
    ports = {name: str(free_port()) for name in ("HEADRACE_RABBITMQ_PORT", "HEADRACE_RABBITMQ_CONSOLE_PORT")}
    arguments, extra = (["serve"], {}) if PICTURES is None else (["up", "--workers", "2"], ports)
    # Speculative decoding would finish a repetitive answer before the page has reloaded.
    launched = Launched(arguments, e2e_home, free_port(), HEADRACE_SPECULATION="off", **extra)
    try:
        launched.until_ready()
        yield launched
    finally:
        launched.end()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owner(launched: Launched, browser: Browser) -> Visit:
    """A page of the owner, signed in by the launcher's link, for which no request fails."""
    visit = await Visit.to(f"http://127.0.0.1:{launched.port}", browser, TIMEOUT)
    statuses: dict[str, int] = {}
    visit.page.on("response", lambda response: statuses.update({response.url: response.status}))
    await visit.page.goto(re.findall(r"http://\S+#start=\S+", launched.output)[0])
    await expect(visit.page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    assert not {url: status for url, status in statuses.items() if status >= 400}
    return visit


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def member(owner: Visit, browser: Browser) -> Visit:
    """A page of a member who signed up by the owner's invitation."""
    await owner.page.get_by_role("link", name="Administration").click()
    await owner.page.get_by_role("button", name="Invite").click()
    dialog = owner.page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Make a link").click()
    link = await dialog.get_by_label("Invitation link").input_value()
    await picture(owner.page, "invited", as_it_is=True)
    await dialog.get_by_role("button", name="Done").click()
    visit = await Visit.to(owner.origin, browser, TIMEOUT)
    await visit.page.goto(link)
    await expect(visit.page.get_by_text("You are invited as: Member.")).to_be_visible()
    await picture(visit.page, "invitation")
    await visit.page.get_by_label("Your name").fill("Grace")
    await visit.page.get_by_label("E-mail address").fill("grace@example.org")
    await visit.page.get_by_label("Password").fill(PASSWORD)
    await visit.page.get_by_role("button", name="Sign up").click()
    await expect(visit.page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    return visit


def answers(page: Page) -> Locator:
    return page.locator("article.answer")


async def begin(visit: Visit, **settings: float) -> None:
    """Start a conversation with the language model and with settings, given by the labels of their fields."""
    page = visit.page
    await page.goto(f"{visit.origin}/")
    await visit.choose_model(MODEL)
    await page.get_by_role("button", name="Settings", exact=True).click()
    for label, value in {"Temperature": 0, **settings}.items():
        await page.get_by_label(label.replace("_", " "), exact=label == "Temperature").fill(str(value))
    await page.get_by_role("button", name="Close settings").click()


async def answered(page: Page) -> Locator:
    """Wait for the last answer to end, and return it."""
    answer = answers(page).last
    await expect(answer).to_have_attribute("aria-busy", "false")
    return answer


async def test_ask_edit_and_switch_branches(member: Visit) -> None:
    page = member.page
    await begin(member, Longest_answer=48)
    await member.ask(ASKED)
    await expect(answers(page)).to_have_count(1)
    first = await answered(page)
    await expect(first.get_by_role("listitem").first).to_be_visible()
    await expect(first.get_by_text(re.compile(r"^\d+ in · \d+ tokens out$"))).to_be_visible()
    await expect(first.get_by_text(re.compile(r"^US\$0\.0\d+$"))).to_be_visible()
    await expect(page).to_have_title(re.compile("^(?!New conversation)"))
    await picture(page, "answered")
    await page.get_by_role("button", name="Edit the question").click()
    await page.get_by_role("textbox", name="Edit the question").fill("What is the capital of France?")
    await page.keyboard.press("Enter")
    question = page.locator("article.question")
    await expect(question.get_by_text("2 of 2")).to_be_attached()
    await expect(await answered(page)).to_contain_text("Paris")
    await picture(page, "branched")
    await member.walk(question, "Previous version")
    await expect(answers(page)).to_contain_text("Zanzibar")
    await member.walk(question, "Next version")
    await expect(answers(page)).to_contain_text("Paris")
    await page.reload()
    await expect(answers(page)).to_contain_text("Paris")
    await member.expect_clean()


async def test_an_answer_survives_a_reload_and_is_stopped_from_another_tab(member: Visit) -> None:
    page = member.page
    await begin(member, Repetition_penalty=REPEATING, Longest_answer=7000)
    await member.ask(ENDLESS)
    text = answers(page).locator(".markdown")
    await expect(text).to_contain_text("river")
    await expect(page).to_have_url(re.compile("/c/conv-"))
    before = await text.inner_text()
    await page.reload()
    await expect(text).to_contain_text(before.strip())
    await expect(answers(page)).to_have_attribute("aria-busy", "true")
    await page.wait_for_function(
        "least => document.querySelector('article.answer .markdown').innerText.length > least", arg=2 * len(before)
    )
    second = replace(member, page=await member.context.new_page())
    second.watch(second.page)
    await second.page.goto(page.url)
    await expect(answers(second.page).locator(".markdown")).to_contain_text(before.strip())
    await picture(page, "streaming")
    await second.page.get_by_role("button", name="Stop", exact=True).click()
    for tab in (second.page, page):
        await expect(tab.get_by_role("button", name="Send", exact=True)).to_be_visible()
        await expect(answers(tab).get_by_text("Stopped")).to_be_visible()
    whole = await member.page.request.get(f"{member.origin}/api/conversations/{page.url.rpartition('/')[2]}")
    written = (await whole.json())["messages"][-1]["text"]
    for tab in (second.page, page):  # a page renders received text a little later
        await expect(answers(tab).locator(".markdown")).to_have_text(written.strip())
    await picture(page, "stopped")
    await second.expect_clean()
    await member.expect_clean()
    await second.page.close()


@pytest.mark.skipif(PICTURES is None, reason="the only worker of `headrace serve` is in its process")
async def test_an_answer_survives_its_worker(member: Visit, launched: Launched) -> None:
    page = member.page
    await begin(member, Repetition_penalty=REPEATING, Longest_answer=7000)
    await member.ask(ENDLESS)
    text = answers(page).locator(".markdown")
    await expect(text).to_contain_text("river")
    (worker,) = re.findall(r"(worker-\d+).* 1 running", launched.headrace("ps").stdout)
    before = await text.inner_text()
    os.kill(int((launched.home / "run" / f"{worker}.pid").read_text()), signal.SIGKILL)
    longer = "least => document.querySelector('article.answer .markdown').innerText.length > least"
    await page.wait_for_function(longer, arg=2 * len(before))
    await expect(text).to_contain_text(before.strip())
    await picture(page, "worker-killed")
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(answers(page).get_by_text("Stopped")).to_be_visible()
    assert f"{worker} was ended by SIGKILL" in launched.output
    await member.expect_clean()


async def test_search(member: Visit) -> None:
    page = member.page
    await begin(member, Longest_answer=4)
    await member.ask("Is a quagga a zebra?")
    await answered(page)
    await begin(member, Longest_answer=4)
    await page.keyboard.press("Control+K")
    await page.keyboard.type("quagg")
    await expect(page.get_by_text("1 conversation found")).to_be_visible()
    found = page.get_by_role("navigation", name="Conversations").get_by_role("listitem")
    await expect(found.locator("mark").first).to_have_text(re.compile("quagg", re.IGNORECASE))
    await picture(page, "searched", as_it_is=True)
    await found.get_by_role("link").click()
    await expect(page.locator("article.question")).to_contain_text("quagga")
    await member.expect_clean()


async def test_the_exported_spreadsheet_has_values_and_no_formulas(member: Visit, tmp_path: Path) -> None:
    page = member.page
    await begin(member, Longest_answer=5)
    await member.ask("=1+2")
    await answered(page)
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Import").click()
    file = FilePayload(name="theirs.json", mimeType="application/json", buffer=theirs(FORMULAS))
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("File", exact=True).set_input_files(file)
    await dialog.get_by_role("button", name="Import").click()
    await expect(dialog.get_by_text("4 conversations imported.")).to_be_visible()
    await dialog.get_by_role("button", name="Close").last.click()
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Export").click()
    await picture(page, "exporting", as_it_is=True)
    async with page.expect_download() as downloading:
        await dialog.get_by_role("link", name="Download").click()
    await (await downloading.value).save_as(tmp_path / "all.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "all.xlsx").active
    assert isinstance(sheet, Worksheet)
    assert {cell.data_type for row in sheet.iter_rows() for cell in row} <= {"s", "n", "d"}
    head, *rows = sheet.iter_rows(values_only=True)
    turns = [dict(zip(map(str, head), row, strict=True)) for row in rows]
    assert {turn["conversation"]: turn["text"] for turn in turns} | FORMULAS == {
        turn["conversation"]: turn["text"] for turn in turns
    }
    asked = next(at for at, turn in enumerate(turns) if turn["text"] == "=1+2")
    question, answer = turns[asked], turns[asked + 1]
    assert (question["role"], answer["role"], answer["state"]) == ("user", "assistant", "done")
    assert (answer["temperature"], answer["max_tokens"]) == (0, 5)
    assert type(answer["completion_tokens"]) is int
    assert 0 < answer["completion_tokens"] <= 5
    assert isinstance(answer["cost_usd"], float)
    assert answer["cost_usd"] > 0
    assert isinstance(answer["time"], datetime)
    await member.expect_clean()


def theirs(conversations: Mapping[str, str]) -> bytes:
    """Return an export file of conversations with one question each, by title."""
    message = {"id": "1", "parent": None, "role": "user"}
    found = [
        {"title": title, "leaf": "1", "messages": [{**message, "text": text}]} for title, text in conversations.items()
    ]
    return json.dumps({"conversations": found}).encode()


async def test_an_exhausted_budget_shows_a_message(member: Visit, owner: Visit, launched: Launched) -> None:
    page = member.page
    limit = launched.headrace("budget", "development", "0.000001")
    assert limit.returncode == 0, limit.stderr
    await begin(member, Longest_answer=4)
    refused = page.get_by_role("alert").filter(has_text="The budget is used up.")
    for asked in range(1, TRIES):
        await member.ask("How are you?")
        await expect(answers(page)).to_have_count(asked)
        await answered(page)
        if await refused.count():
            break
    await expect(refused).to_be_visible()
    await picture(page, "refused")
    await owner.page.goto(f"{owner.origin}/admin/budgets")
    await expect(owner.page.get_by_role("table", name="Budgets")).to_contain_text("organisation")
    await picture(owner.page, "budgets")
    assert launched.headrace("budget", "development", "--remove").returncode == 0
    for version in range(2, TRIES):
        await page.get_by_role("button", name="Try again", exact=True).click()
        await expect(answers(page).last.get_by_text(f"{version} of {version}")).to_be_attached()
        if not await refused.count():
            break
    await expect(answers(page).last.get_by_text(re.compile("tokens? out"))).to_be_visible()
    await member.expect_clean()


async def test_pages_have_no_accessibility_violations(owner: Visit, browser: Browser) -> None:
    page = owner.page
    await begin(owner, Longest_answer=16)
    await owner.ask(ASKED)
    await answered(page)
    await page.get_by_role("button", name="Settings", exact=True).click()
    await picture(page, "settings", as_it_is=True)
    found = await owner.violations()
    for path in ("account", "usage", *(f"admin/{section}" for section in SECTIONS)):
        await page.goto(f"{owner.origin}/{path}")
        await loaded(page)
        found += await owner.violations()
        await picture(page, path.replace("/", "-"))
    stranger = await Visit.to(owner.origin, browser, TIMEOUT)
    await stranger.page.goto(f"{owner.origin}/sign-in")
    await loaded(stranger.page)
    found += await stranger.violations()
    await picture(stranger.page, "sign-in")
    assert found == []
    await owner.expect_clean()
    await stranger.expect_clean()
