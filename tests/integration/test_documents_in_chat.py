"""A person's path in Chromium over RabbitMQ and a real embedding model: upload, ask, follow a citation, share, delete.

The model that answers is scripted: it quotes the first passage of its prompt, and cites it.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Page, expect

from auth_billing.access.roles import Actor, Role
from auth_billing.development_account import ORGANISATION
from chat_ui.settings import ChatSettings
from infra.accounts.sign_in_services import browser_access
from router.messages import Finished, Job
from router.rabbitmq_bus import rabbitmq_bus
from tests.chaos.installed import skip_unless_installed
from tests.chaos.stack import Size, Stack, running
from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.conftest import DIST
from tests.contract.examples import msgspec_replace
from tests.documents.parsing.files import Text, docx, pdf
from tests.fakes.scripted_worker import ScriptedWorker, prompt_text, usage
from tests.fakes.sessions import PASSWORD, sign_up_input
from tests.integration.test_documents import KINDS, with_embedder

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.model, pytest.mark.timeout(400)]

TIMEOUT = 60_000
"""Timeout in milliseconds; long, because the machine may be busy."""
MODEL = "reader"
QUOTED = re.compile(r"\[1\] \([^\n]*\)\n(.+?)\n\n", re.DOTALL)


async def quote_first_passage(worker: ScriptedWorker, job: Job) -> None:
    """Answer with the first passage of the prompt, word by word, and cite it."""
    attempt = uuid.uuid4().hex
    found = QUOTED.search(prompt_text(job))
    words = [*found[1].split(), "[1]."] if found else ["Nothing."]
    worker.begin(job, attempt)
    for position, word in enumerate(words):
        ends = {"finish_reason": "stop"} if position == len(words) - 1 else {}
        worker.send_token(job, attempt, position, f"{word} ", **ends)
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(words))))


@asynccontextmanager
async def with_reader(stack: Stack) -> AsyncIterator[None]:
    """A worker in this process whose answers quote their prompts, until the block ends."""
    processes = stack.processes
    bus = rabbitmq_bus(processes.broker.amqp_url("worker"), "reader-1", processes.control_secret)
    await bus.start(declares_platform=False)
    worker = ScriptedWorker(bus, MODEL, quote_first_passage, "reader-1")

    async def beat() -> None:
        while True:
            bus.send_status(msgspec_replace(worker.status, max_model_len=4096, at=time.time()))
            await asyncio.sleep(1.0)

    beating = asyncio.create_task(beat())
    try:
        async with worker.running():
            yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await bus.close()


async def people(stack: Stack, *names: str) -> None:
    """Sign up members of the organisation."""
    access = browser_access(stack.access, ChatSettings(), lambda _: None)
    for name in names:
        _, token = await access.invitations.invite(Actor(ORGANISATION, "", Role.OWNER), Role.MEMBER)
        await access.sign_up.accept_invitation(token, sign_up_input(name))


async def signed_in(browser: Browser, origin: str, name: str) -> Visit:
    visit = await Visit.to(origin, browser, TIMEOUT)
    await visit.page.goto(f"{origin}/documents")
    await visit.page.get_by_label("E-mail address").fill(f"{name}@example.org")
    await visit.page.get_by_label("Password").fill(PASSWORD)
    await visit.page.get_by_role("button", name="Sign in").click()
    await expect(visit.page.get_by_role("heading", name="Documents")).to_be_visible()
    return visit


async def test_a_persons_path(embedding_folder: Path) -> None:
    skip_unless_installed()
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    async with (
        running(Size(gateways=1, workers=1)) as stack,
        with_embedder(stack, embedding_folder),
        with_reader(stack),
        chromium() as browser,
    ):
        await people(stack, "ada", "bob")
        origin = f"http://127.0.0.1:{stack.ports['gateway-1']}"
        ada, bob = [await signed_in(browser, origin, name) for name in ("ada", "bob")]
        collection = await upload(ada.page)
        await search(ada.page, collection)
        await ask(ada)
        await share_and_take_away(ada.page, bob.page, collection)
        await delete(ada.page, collection)
        for visit in (ada, bob):
            await visit.expect_clean()


async def upload(page: Page) -> str:
    """Upload files of six kinds and a broken one to a new collection; return the address of its page."""
    await page.get_by_role("button", name="New collection").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Shelf")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Shelf")).to_be_visible()
    cats = docx("<w:p><w:r><w:t>Cats purr when they are content, and sleep sixteen hours a day.</w:t></w:r></w:p>")
    report = pdf([Text("The factory made 512 turbines in March.", 72, 760)])
    kinds = [*KINDS, ("cats.docx", cats), ("report.pdf", report), ("broken.pdf", b"%PDF-1.7 broken")]
    files = [FilePayload(name=name, mimeType="application/octet-stream", buffer=content) for name, content in kinds]
    await page.get_by_label("Files to upload").set_input_files(files)
    for name, _ in kinds[:-1]:
        await expect(page.get_by_role("link", name=name)).to_be_visible()
    broken = page.get_by_role("listitem").filter(has_text="broken.pdf")
    await expect(broken.get_by_text("Not read")).to_be_visible()
    return page.url


async def search(page: Page, collection: str) -> None:
    """Search in both languages, and open a passage in its document."""
    found = page.get_by_role("list", name="Passages")
    for question, name, passage in (
        ("number of turbines produced", "report.pdf", "512 turbines"),
        ("ile wynosi kaucja za najem?", "umowa.txt", "Kaucja to 1400 euro"),
    ):
        await page.goto(collection)
        await page.get_by_label("Search in these documents").fill(question)
        await page.keyboard.press("Enter")
        first = found.get_by_role("listitem").first
        await expect(first.get_by_role("link", name=name)).to_be_visible()
        await first.get_by_role("link").click()
        await expect(page.locator("mark").first).to_contain_text(passage)


async def ask(visit: Visit) -> None:
    """Have questions in both languages answered from the collection, and follow the citations."""
    page = visit.page
    for question, name, passage in (
        ("How far away is Vega?", "stars.csv", "Vega"),
        ("Ile wynosi czynsz?", "umowa.txt", "Czynsz wynosi 700 euro"),
    ):
        await page.goto(visit.origin)
        await visit.choose_model(MODEL)
        await page.get_by_role("button", name="Ask my documents").click()
        await page.get_by_role("dialog").get_by_role("checkbox", name=re.compile("^Shelf")).check()
        await page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
        await visit.ask(question)
        answer = page.locator("article.answer")
        await expect(answer).to_have_attribute("aria-busy", "false")
        await expect(answer.get_by_text(passage)).to_be_visible()
        citation = answer.get_by_role("link", name=re.compile(f"^Source 1: {re.escape(name)}"))
        await citation.last.click()
        await expect(page.get_by_role("heading", name=name)).to_be_visible()
        await expect(page.locator("mark").first).to_contain_text(passage)


async def share_and_take_away(page: Page, other: Page, collection: str) -> None:
    await other.goto(collection)
    await expect(other.get_by_text("This is not there, or not any more.")).to_be_visible()
    await page.goto(collection)
    await page.get_by_role("button", name="Actions for Shelf").click()
    await page.get_by_role("menuitem", name="Share").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("E-mail address of a member").fill("bob@example.org")
    await page.keyboard.press("Enter")
    taking = dialog.get_by_role("button", name="Take away the right of bob")
    await expect(taking).to_be_visible()
    await other.reload()
    await other.get_by_label("Search in these documents").fill("sleeping animals")
    await other.keyboard.press("Enter")
    await expect(other.get_by_role("list", name="Passages").get_by_role("link", name="cats.docx")).to_be_visible()
    await taking.click()
    await expect(taking).to_have_count(0)
    await other.get_by_role("button", name="Search").click()  # the page is still open
    await expect(other.get_by_text("This is not there, or not any more.").first).to_be_visible()
    await page.keyboard.press("Escape")


async def delete(page: Page, collection: str) -> None:
    await page.goto(collection)
    await page.get_by_role("button", name="Delete umowa.txt?").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete file").click()
    await expect(page.get_by_role("link", name="umowa.txt")).to_have_count(0)
    await page.get_by_label("Search in these documents").fill("kaucja czynsz najem")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").filter(has_text="found")).to_have_count(1)
    await expect(page.get_by_role("list", name="Passages").get_by_role("link", name="umowa.txt")).to_have_count(0)
    await page.get_by_role("button", name="Actions for Shelf").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("There are no collections")).to_be_visible()
