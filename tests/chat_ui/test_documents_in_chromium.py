"""The pages of documents in a real Chromium, over the real API with stores in memory."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Page, expect

from auth_billing.access.roles import Role
from chat_ui.document_search import PassageHit
from documents.content import Passage
from stored_objects.vector_stores.access import ORGANISATION
from stored_objects.vector_stores.records import ImportFailure, VectorStore
from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.conftest import DIST, StubServer
from tests.chat_ui.test_password_in_chromium import application, sign_in
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.fakes.sessions import PASSWORD, PeopleFixture

PICTURES = os.environ.get("HEADRACE_SCREENSHOTS")
SENTENCES = [
    "This lease begins on the first of March.",
    "The rent is 700 euros, due on the tenth of each month.",
    "The deposit is 1,400 euros.",
    "Pets need the landlord’s consent.",
    "The flat may not be sublet.",
    "Either party may end the lease with three months’ notice.",
]


def passages() -> list[Passage]:
    found, start = [], 0
    for number, text in enumerate(SENTENCES):
        found.append(Passage(text, 1 + number // 2, ("Lease", f"Section {number + 1}"), start, start + len(text), 9))
        start += len(text) + 2
    return found


async def picture(page: Page, name: str) -> None:
    if PICTURES is not None:
        await page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


async def test_files_are_uploaded_searched_opened_shared_and_deleted() -> None:
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    people, house = PeopleFixture(), ChatHouse()
    access = people.process()
    for role in (Role.ADMIN, Role.MEMBER):
        await people.sign_up_member(access, role)
    with StubServer(application(house.chat(access, ListAuditLogStore()))) as origin:
        async with chromium() as browser:
            owner = await Visit.to(origin, browser)
            await upload_and_read(owner, house)
            await share(owner, browser)
            await delete(owner, browser, house)
            await owner.expect_clean()
    people.passwords.close()


async def upload_and_read(visit: Visit, house: ChatHouse) -> None:
    page = visit.page
    await page.goto(f"{visit.origin}/documents")
    await sign_in(page, "member", PASSWORD)
    await page.get_by_role("link", name="Documents").click()
    await page.get_by_role("button", name="New collection").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Leases")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Leases")).to_be_visible()
    files = [FilePayload(name=name, mimeType="text/plain", buffer=b"text") for name in ("lease.pdf", "old.doc", "c.md")]
    await page.get_by_label("Files to upload").set_input_files(files)
    await expect(page.get_by_text("Being read", exact=True)).to_have_count(3)
    house.documents.by_name = {
        "lease.pdf": passages(),
        "old.doc": ImportFailure("unsupported_file", "Word 97 is not read."),
        "c.md": [Passage("Notes", None, (), 0, 5, 1)],
    }
    await house.documents.import_next()
    await expect(page.get_by_role("progressbar", name="Files that are read")).to_have_js_property("value", 1)
    for _ in range(2):  # uploads may end in any order
        await house.documents.import_next()
    await expect(page.get_by_text("Word 97 is not read.")).to_be_visible()
    link = page.get_by_role("link", name="lease.pdf")
    await expect(link).to_be_visible()
    file = (await link.get_attribute("href") or "").rpartition("/")[2]
    text = SENTENCES[1]
    house.documents.found = [PassageHit(file, "lease.pdf", 1, text, 1, ["Lease", "Section 2"], 0.84)]
    await page.get_by_label("Search in these documents").fill("When is the rent due?")
    await page.keyboard.press("Enter")
    found = page.get_by_role("list", name="Passages")
    await expect(found.get_by_text("page 1 · Lease › Section 2 · fits by 84%")).to_be_visible()
    await picture(page, "documents")
    assert await visit.violations() == []
    await page.emulate_media(color_scheme="light")
    await found.get_by_role("link", name="lease.pdf").click()
    await expect(page.locator("mark")).to_have_text(text)
    await picture(page, "documents-passage")
    assert await visit.violations() == []
    await page.emulate_media(color_scheme="light")
    await page.go_back()
    await page.set_viewport_size({"width": 390, "height": 844})
    await expect(page.get_by_role("link", name="lease.pdf")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.set_viewport_size({"width": 1280, "height": 800})


async def expect_whole_navigation(page: Page) -> None:
    """On a narrow phone every link of an administrator's navigation is whole, in both languages."""
    navigation = page.get_by_role("navigation").first
    for language, last in (("pl", "Administracja"), ("en", "Administration")):
        await page.evaluate("(language) => localStorage.setItem('headrace.language', language)", language)
        for width in (320, 360):
            await page.set_viewport_size({"width": width, "height": 740})
            await page.reload()
            await expect(navigation.get_by_role("link", name=last)).to_be_visible()
            await picture(page, f"navigation-{language}-{width}")
            links = await navigation.evaluate(
                "(all) => [...all.children].map((each) => each.getBoundingClientRect().right)"
            )
            assert max(links) <= width, (language, links)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.set_viewport_size({"width": 1280, "height": 800})


async def share(visit: Visit, browser: Browser) -> None:
    page, other = visit.page, await Visit.to(visit.origin, browser)
    await other.page.goto(f"{visit.origin}/documents")
    await sign_in(other.page, "admin", PASSWORD)
    await expect(other.page.get_by_text("There are no collections")).to_be_visible()
    await expect_whole_navigation(other.page)
    await page.get_by_role("button", name="Actions for Leases").click()
    await page.get_by_role("menuitem", name="Share").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("E-mail address of a member").fill("admin@example.org")
    await page.keyboard.press("Enter")
    taking = dialog.get_by_role("button", name="Take away the right of admin")
    await expect(taking).to_be_visible()
    await picture(page, "documents-share")
    assert await visit.violations() == []
    await other.page.reload()
    await other.page.get_by_role("link", name="Leases").click()
    await expect(other.page.get_by_text("shared by member")).to_be_visible()
    await expect(other.page.get_by_role("button", name="Add files")).to_have_count(0)
    await taking.click()
    await expect(taking).to_have_count(0)
    await page.keyboard.press("Escape")
    await other.page.reload()
    await expect(other.page.get_by_text("This is not there, or not any more.")).to_be_visible()
    assert other.complaints == []


async def delete(visit: Visit, browser: Browser, house: ChatHouse) -> None:
    page = visit.page
    await page.get_by_role("button", name="Delete lease.pdf?").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete file").click()
    await expect(page.get_by_role("link", name="lease.pdf")).to_have_count(0)
    [store] = house.documents.stores.records.stores.values()  # type: ignore[attr-defined]
    await house.documents.stores.share(store, ORGANISATION)
    other = await Visit.to(visit.origin, browser)
    await other.page.goto(f"{visit.origin}/documents/{store.id}")
    await sign_in(other.page, "admin", PASSWORD)
    await expect(other.page.get_by_role("link", name="c.md")).to_be_visible()
    remove, may_remove = house.documents.stores.remove, threading.Event()

    async def remove_later(store: VectorStore) -> None:
        while not may_remove.is_set():
            await asyncio.sleep(0.02)
        await remove(store)

    house.documents.stores.remove = remove_later  # type: ignore[method-assign]
    await page.get_by_role("button", name="Actions for Leases").click()
    await page.get_by_role("menuitem", name="Delete").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Delete")
    await confirm.click()
    await expect(confirm).to_be_disabled()  # its files are being removed
    await other.page.get_by_label("Search in these documents").fill("When is the rent due?")
    await other.page.keyboard.press("Enter")
    await expect(other.page.get_by_text("This is not there, or not any more.")).to_be_visible()
    await other.page.reload()
    await expect(other.page.get_by_text("This is not there, or not any more.")).to_be_visible()
    await other.page.get_by_role("link", name="Documents", exact=True).click()
    await expect(other.page.get_by_text("There are no collections")).to_be_visible()
    may_remove.set()
    await expect(page.get_by_text("There are no collections")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert house.documents.stores.records.stores == {}  # type: ignore[attr-defined]
    assert other.complaints == []
