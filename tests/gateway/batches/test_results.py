"""Results of lines: stored in parts with the progress, repeated while the store is away, lost with the lease."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.datastructures import Headers

from gateway.batches import results as results_module
from gateway.batches.results import BatchResults, LeaseLost, NoSpace
from gateway.http.internal_requests import InternalAnswer
from stored_objects.errors import StorageQuotaExceeded
from stored_objects.objects.objects import StoredObjects
from stored_objects.project_documents.batches import Batch, BatchState
from tests.fakes.batches import DictBatchStore
from tests.fakes.stored_objects import stored_objects

BATCH = Batch(
    "batch_1", "org-1", "proj-1", "key-1", "/v1/completions", "blob_in", 0.0, 1e12, state=BatchState.IN_PROGRESS,
    output_file="blob_" + "o" * 24, error_file="blob_" + "e" * 24, runner="me", lease=1e12,
)  # fmt: skip


@pytest.fixture
def batches() -> DictBatchStore:
    store = DictBatchStore()
    store.records[BATCH.id] = BATCH
    return store


@pytest.fixture
def objects() -> StoredObjects:
    return stored_objects()


def results_of(objects: StoredObjects, batches: DictBatchStore) -> BatchResults:
    return BatchResults(objects, batches, batches.records[BATCH.id], "me", lambda: 3600.0)


def answer(status: int = 200, **body: Any) -> InternalAnswer:
    return InternalAnswer(status, Headers({"x-request-id": "req_1"}), json.dumps(body).encode())


async def lines(objects: StoredObjects, parts: list[Any]) -> list[dict[str, Any]]:
    content = b""
    for part in parts:
        content += await objects.get(BATCH.owner, part.id)
    return [json.loads(each) for each in content.splitlines()]


async def test_results_are_stored_with_the_progress(objects: StoredObjects, batches: DictBatchStore) -> None:
    results = results_of(objects, batches)
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    assert await results.add(2, "b", answer(usage=usage))
    assert not await results.add(1, "a", answer(400, error={}))
    await results.add_error(4, "d", "batch_expired", "too late")
    assert not results.is_done(2)
    await results.flush()
    progress = batches.records[BATCH.id].progress
    assert (progress.done_to, progress.done, progress.completed, progress.failed) == (2, [4], 1, 2)
    assert (progress.input_tokens, progress.cached_tokens, progress.output_tokens) == (3, 1, 2)
    (good,), bad = await lines(objects, progress.output), await lines(objects, progress.errors)
    assert (good["custom_id"], good["response"]["status_code"], good["error"]) == ("b", 200, None)
    assert [each["custom_id"] for each in bad] == ["a", "d"]
    assert bad[1]["response"] is None
    assert bad[1]["error"] == {"code": "batch_expired", "message": "too late"}
    assert [results.is_done(number) for number in (1, 2, 3, 4, 5)] == [True, True, False, True, False]


async def test_a_runner_that_takes_over_goes_on_behind_the_progress(
    objects: StoredObjects, batches: DictBatchStore
) -> None:
    first = results_of(objects, batches)
    await first.add(1, "a", answer())
    await first.flush()
    await first.add(2, "b", answer())  # is lost with its gateway
    second = results_of(objects, batches)
    assert (second.is_done(1), second.is_done(2)) == (True, False)
    await second.add(2, "b", answer())
    await second.flush()
    progress = batches.records[BATCH.id].progress
    assert [each["custom_id"] for each in await lines(objects, progress.output)] == ["a", "b"]
    assert (progress.done_to, progress.completed) == (2, 2)


async def test_nothing_is_stored_after_the_lease_is_lost(objects: StoredObjects, batches: DictBatchStore) -> None:
    results = results_of(objects, batches)
    await results.add(1, "a", answer())
    await batches.claim("other", 2e12, 3e12)
    with pytest.raises(LeaseLost):
        await results.flush()
    assert batches.records[BATCH.id].progress == BATCH.progress


async def test_results_wait_for_space(
    objects: StoredObjects, batches: DictBatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "RETRY_INTERVAL", 0.0)
    results, tried = results_of(objects, batches), 0
    write = StoredObjects.write

    async def full_twice(self: StoredObjects, *arguments: Any) -> Any:
        nonlocal tried
        tried += 1
        if tried < 3:
            raise StorageQuotaExceeded(1, 1, 1, shared=False)
        return await write(self, *arguments)

    monkeypatch.setattr(StoredObjects, "write", full_twice)
    await results.add(1, "a", answer())
    await results.flush()
    assert tried == 3
    assert batches.records[BATCH.id].progress.done_to == 1


async def test_results_do_not_wait_for_space_without_end(
    objects: StoredObjects, batches: DictBatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "RETRY_INTERVAL", 0.0)
    objects.quotas.per_project = 10
    results = results_of(objects, batches)
    await results.add(1, "a", answer())
    with pytest.raises(NoSpace):
        await results.flush()
    assert batches.records[BATCH.id].progress == BATCH.progress


async def test_many_results_are_stored_at_once(
    objects: StoredObjects, batches: DictBatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "FLUSH_BYTES", 5_000)
    results = results_of(objects, batches)
    for number in range(1, 101):
        await results.add(number, f"line-{number}", answer(text="x" * 100))
    await results.flush()
    progress = batches.records[BATCH.id].progress
    assert 3 <= len(progress.output) <= 8
    assert (progress.done_to, progress.done) == (100, [])


async def test_an_answer_that_is_no_json_has_no_body(objects: StoredObjects, batches: DictBatchStore) -> None:
    results = results_of(objects, batches)
    await results.add(1, "a", InternalAnswer(502, Headers({}), b"<html>"))
    await results.flush()
    (line,) = await lines(objects, batches.records[BATCH.id].progress.errors)
    assert line["response"] == {"status_code": 502, "request_id": "", "body": None}
