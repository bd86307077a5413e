"""The page of batches in a real Chromium, over the real API with stores in memory."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from auth_billing.access.roles import Role
from stored_objects.objects.records import ObjectKind
from stored_objects.project_documents.batches import BatchProgress, BatchState
from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.conftest import DIST, StubServer
from tests.chat_ui.test_password_in_chromium import application, sign_in
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.fakes.sessions import PASSWORD, PeopleFixture

PICTURES = os.environ.get("HEADRACE_SCREENSHOTS")
LINE = json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m"}})


async def picture(page: Page, name: str) -> None:
    if PICTURES is not None:
        await page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


async def test_a_batch_is_started_followed_and_downloaded(tmp_path: Path) -> None:
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    people, house = PeopleFixture(), ChatHouse()
    access = people.process()
    await people.sign_up_member(access, Role.MEMBER)
    file = tmp_path / "questions.jsonl"
    file.write_text(LINE)
    with StubServer(application(house.chat(access, ListAuditLogStore()))) as origin:
        async with chromium() as browser:
            visit = await Visit.to(origin, browser)
            page = visit.page
            await page.goto(f"{origin}/batches")
            await sign_in(page, "member", PASSWORD)
            await page.get_by_role("link", name="Batches").click()
            await expect(page.get_by_text("There are no batches")).to_be_visible()
            async with page.expect_file_chooser() as chooser:
                await page.get_by_role("button", name="Start a batch from a file").click()
            await (await chooser.value).set_files(file)
            card = page.get_by_role("article", name="questions.jsonl")
            await expect(card.get_by_text("Checking the file")).to_be_visible()
            [batch] = house.batches.records.values()
            house.batches.records[batch.id] = running = replace(
                batch,
                state=BatchState.IN_PROGRESS,
                model="smollm2-135m-instruct",
                total=2000,
                times={"in_progress": time.time() - 60},
                progress=BatchProgress(completed=790, failed=10),
            )
            bar = card.get_by_role("progressbar", name="Lines that are done")
            await expect(bar).to_have_js_property("value", 800)
            await expect(card.get_by_text("10 errors")).to_be_visible()
            await expect(card.get_by_text("left")).to_be_visible()
            await picture(page, "batches")
            assert await visit.violations() == []
            await page.set_viewport_size({"width": 390, "height": 700})
            await picture(page, "batches-phone")
            output = await house.objects.put(
                running.owner, b"{}\n", kind=ObjectKind.FILE, media_type="application/octet-stream"
            )
            house.batches.records[batch.id] = replace(
                running,
                state=BatchState.COMPLETED,
                progress=BatchProgress(completed=2000),
                output_file=output.id,
            )
            async with page.expect_download() as download:
                await card.get_by_role("link", name="Download answers").click()
            await (await download.value).save_as(tmp_path / "answers.jsonl")
            assert (tmp_path / "answers.jsonl").stat().st_size == 3
            await expect(card.get_by_role("button")).to_have_count(0)
            await visit.expect_clean()
    people.passwords.close()
