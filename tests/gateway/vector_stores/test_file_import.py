"""Imports of files: they go on after a lost lease, embed nothing twice, and end with a reason that clients see."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from documents.content import Block, Document
from documents.parsing.parser import NO_LANGUAGES, DocumentParser
from gateway.vector_stores import file_import
from gateway.vector_stores.passage_embedding import EmbeddingBusy
from router.messages import EmbeddingPrompt, FailureCode, Job
from stored_objects.vector_stores.imports import LEASE
from stored_objects.vector_stores.passages import BLOCK_PASSAGES
from stored_objects.vector_stores.records import FileState
from tests.documents.parsing.files import SCAN, raw_pdf
from tests.documents.parsing.scanned import page, require_tesseract
from tests.documents.parsing.scanned import scanned as scanned_pages
from tests.fakes.scripted_worker import Script, ScriptedWorker, fail
from tests.fakes.vector_stores import DictVectorStores
from tests.gateway.conftest import eventually
from tests.gateway.vector_stores.library import DOGS, Library, embed_topics, library

NOTE = "A note about the garden behind the house, in which nothing grows but grass and weeds of all kinds. " * 3
NOTES = 2 * BLOCK_PASSAGES + 10
LONG = b"\n\n".join(f"Number {number}. {NOTE}".encode() for number in range(NOTES))
"""A file of three blocks of passages."""
SMALL = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}}


def gated(first: int) -> tuple[Script, asyncio.Event]:
    """A script that embeds the first jobs at once, the others once the event is set."""
    gate = asyncio.Event()

    async def script(worker: ScriptedWorker, job: Job) -> None:
        if worker.jobs.index(job) >= first:
            await gate.wait()
        await embed_topics(worker, job)

    return script, gate


def records_of(shelf: Library) -> DictVectorStores:
    records = shelf.stage.gateway.vector_stores.records
    assert isinstance(records, DictVectorStores)
    return records


async def attached(shelf: Library, content: bytes, **fields: Any) -> tuple[str, str]:
    """Attach a file to a new vector store; return the ids of both."""
    store = (await shelf.post(""))["id"]
    file = await shelf.upload(content)
    await shelf.post(f"/{store}/files", {"file_id": file, **fields})
    return store, file


async def failure_of(shelf: Library, store: str, file: str) -> dict[str, str]:
    await shelf.imported(store)
    found: dict[str, str] = (await shelf.get(f"/{store}/files/{file}"))["last_error"]
    return found


def texts_of(job: Job) -> list[str]:
    assert isinstance(job.prompt, EmbeddingPrompt)
    return [str(each) for each in job.prompt.inputs]


async def test_an_import_that_loses_its_lease_goes_on_and_embeds_nothing_twice() -> None:
    script, gate = gated(1)
    async with library(embeds=script) as shelf:
        store, file = await attached(shelf, LONG, chunking_strategy=SMALL)
        await eventually(lambda: len(shelf.worker.jobs) == 3)
        records = records_of(shelf)
        key = f"{store}/{file}"
        lost = records.files[key]
        records.files[key] = replace(lost, runner="another", lease=0.0, claims=lost.claims + 1)
        gate.set()
        assert (await shelf.imported(store))["file_counts"]["completed"] == 1
        assert records.files[key].claims > lost.claims + 1
        assert [len(texts_of(job)) for job in shelf.worker.jobs] == [BLOCK_PASSAGES, BLOCK_PASSAGES, 10]
        await eventually(lambda: len(shelf.stage.receipts) == 3)
        content = (await shelf.get(f"/{store}/files/{file}/content"))["data"]
        assert [each["text"].partition(".")[0] for each in content] == [f"Number {number}" for number in range(NOTES)]


async def test_vectors_are_kept_with_the_passages_alone_and_computed_anew_after_a_deletion() -> None:
    async with library() as shelf:
        store, file = await attached(shelf, LONG, chunking_strategy=SMALL)
        await shelf.imported(store)
        answers = [each.answer for each in shelf.stage.idempotency.records.values()]
        assert [each and (each.status, each.body) for each in answers] == [(200, None)] * 3
        await shelf.client.delete(f"/v1/vector_stores/{store}")
        again = (await shelf.post("", {"file_ids": [file], "chunking_strategy": SMALL}))["id"]
        assert (await shelf.imported(again))["file_counts"]["completed"] == 1
        assert len(shelf.worker.jobs) == 6


async def test_a_cancelled_import_ends() -> None:
    script, gate = gated(0)
    async with library(embeds=script) as shelf:
        store = (await shelf.post(""))["id"]
        batch = await shelf.post(f"/{store}/file_batches", {"file_ids": [await shelf.upload(DOGS)]})
        await eventually(lambda: len(shelf.worker.jobs) == 1)
        await shelf.post(f"/{store}/file_batches/{batch['id']}/cancel")
        gate.set()
        await eventually(lambda: len(shelf.stage.receipts) == 1)
        found = await shelf.get(f"/{store}/file_batches/{batch['id']}")
        assert (found["status"], found["file_counts"]["cancelled"]) == ("cancelled", 1)
        assert await shelf.search(store, "dog") == []


async def test_texts_that_the_model_can_not_read_are_cut_for_it_and_found_whole() -> None:
    async def short_sighted(worker: ScriptedWorker, job: Job) -> None:
        too_long = max(map(len, texts_of(job))) > 40
        await (fail(FailureCode.CONTEXT_LENGTH_EXCEEDED) if too_long else embed_topics)(worker, job)

    async with library(embeds=short_sighted) as shelf:
        store, file = await attached(shelf, DOGS)
        assert (await shelf.imported(store))["file_counts"]["completed"] == 1
        assert "barks at night" in (await shelf.get(f"/{store}/files/{file}/content"))["data"][0]["text"]
        await eventually(lambda: sum(each.usage.prompt_tokens > 0 for each in shelf.stage.receipts) == 1)


async def test_a_file_is_parsed_by_its_suffix_also_if_its_content_was_imported() -> None:
    async with library() as shelf:
        store = (await shelf.post(""))["id"]
        files = [await shelf.upload(DOGS, name) for name in ("a.md", "b.MD", "c.txt")]
        for each in files:
            await shelf.post(f"/{store}/files", {"file_id": each})
            await shelf.imported(store)
        sets = [records_of(shelf).files[f"{store}/{each}"].passages for each in files]
        assert sets[0] == sets[1] != sets[2]


async def test_a_file_waits_outside_its_place_while_the_service_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy(*_: object) -> list[bytes]:
        raise EmbeddingBusy("the model answers 429")

    monkeypatch.setattr(file_import, "embed", busy)
    async with library() as shelf:
        store, file = await attached(shelf, DOGS)
        files, key = records_of(shelf).files, f"{store}/{file}"
        await eventually(lambda: files[key].lease > time.time() + LEASE)
        assert (files[key].state, files[key].claims) == (FileState.IN_PROGRESS, 1)
        monkeypatch.undo()
        files[key] = replace(files[key], lease=0.0)
        assert (await shelf.imported(store))["file_counts"]["completed"] == 1


async def test_a_file_whose_key_was_revoked_fails() -> None:
    async with library() as shelf:
        shelf.stage.accounts.revoked.add("key-1")
        failure = await failure_of(shelf, *await attached(shelf, DOGS))
        assert failure == {"code": "server_error", "message": "The API key that has attached the file was revoked."}


async def test_a_file_that_is_deleted_before_its_import_is_gone() -> None:
    script, gate = gated(0)
    async with library(embeds=script) as shelf:
        store, file = await attached(shelf, DOGS)
        await eventually(lambda: len(shelf.worker.jobs) == 1)
        await shelf.client.delete(f"/v1/files/{file}")
        gate.set()
        await eventually(lambda: len(shelf.stage.receipts) == 1)
        assert (await shelf.imported(store))["file_counts"]["total"] == 0


async def test_a_model_that_refuses_is_the_reason_of_a_failure() -> None:
    async with library(embeds=fail(FailureCode.FAILED_REPEATEDLY, "It failed.")) as shelf:
        failure = await failure_of(shelf, *await attached(shelf, DOGS))
        assert failure["code"] == "server_error"


async def test_a_file_without_text_fails() -> None:
    async with library() as shelf:
        failure = await failure_of(shelf, *await attached(shelf, b"   \n \n"))
        assert failure == {"code": "invalid_file", "message": "The file has no text."}


async def test_scanned_pages_are_a_warning_of_an_imported_file_and_the_failure_of_one_without_text() -> None:
    font = "<< /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Resources {font} /Contents 7 0 R >>"
    text = "BT /F 9 Tf 9 50 Td (A dog lives here) Tj ET"
    written = [page, f"<< /Length {len(text)} >>\nstream\n{text}\nendstream"]
    async with library(ocr_languages=NO_LANGUAGES) as shelf:
        store, file = await attached(shelf, scanned("[6 0 R 3 0 R]", *written))
        await shelf.imported(store)
        found = await shelf.get(f"/{store}/files/{file}")
        assert (found["status"], found["warning"]) == ("completed", "Scanned without text, and not read: page 2 of 2.")
        failure = await failure_of(shelf, *await attached(shelf, scanned("[3 0 R 3 0 R]")))
        assert failure["message"] == "The file has no text. Scanned without text, and not read: pages 1-2 of 2."


async def test_recognised_pages_are_cited_by_their_number() -> None:
    require_tesseract()
    content = scanned_pages(page(), page("A dog lives in the garden", "behind the house."))
    async with library() as shelf:
        store, file = await attached(shelf, content)
        await shelf.imported(store)
        [passage] = (await shelf.get(f"/{store}/files/{file}/content"))["data"]
        assert (passage["page"], passage["text"]) == (2, "A dog lives in the garden behind the house.")


async def test_passages_of_a_scan_are_shared_if_the_same_text_was_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    block, further = Block("paragraph", "A dog lives here."), Block("paragraph", "A cat does not.", page=2)
    unread, read = Document((block,)), Document((block, further), recognised_pages=1)
    parsed = [unread, unread, read, read]
    monkeypatch.setattr(DocumentParser, "parse", AsyncMock(side_effect=parsed))
    async with library() as shelf:
        jobs = []
        for _ in parsed:
            store, _file = await attached(shelf, b"%PDF-1.7 the same content")
            await shelf.imported(store)
            jobs.append(len(shelf.worker.jobs))
        assert jobs == [1, 1, 2, 2]


def scanned(pages: str, *objects: str) -> bytes:
    """A PDF of two pages, of which object 3 is a scan."""
    return raw_pdf("<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Count 2 /Kids {pages} >>", *SCAN, *objects)
