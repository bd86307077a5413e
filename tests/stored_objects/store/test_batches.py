"""Batches in MongoDB and in memory: found by their project, run by the holder of their lease, cancelled at any time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stored_objects.objects.records import ObjectPart
from stored_objects.project_documents.batches import Batch, BatchError, BatchProgress, BatchState, BatchStore
from stored_objects.store.batches import MongoBatchStore
from tests.fakes.batches import DictBatchStore
from tests.stored_objects.conftest import START

RUNNER, OTHER = "gateway-1", "gateway-2"
OPEN = [BatchState.VALIDATING, BatchState.IN_PROGRESS, BatchState.FINALIZING, BatchState.CANCELLING]


@pytest.fixture(params=["memory", pytest.param("store", marks=pytest.mark.store)])
def batches(request: pytest.FixtureRequest) -> BatchStore:
    if request.param == "memory":
        return DictBatchStore()
    return MongoBatchStore(request.getfixturevalue("connection"))


async def insert(batches: BatchStore, id: str = "batch_1", created: float = START, **fields: Any) -> Batch:
    batch = Batch(id, "org-1", "proj-1", "key-1", "/v1/completions", "blob_1", created, created + 86_400, **fields)
    assert await batches.insert(batch)
    return batch


async def test_every_field_is_read_as_it_was_written(batches: BatchStore) -> None:
    part = ObjectPart("blob_2", 2**40, "ab" * 32)
    batch = await insert(
        batches,
        metadata={"a.b": "$x", "": "y"},
        output_lifetime=3600.0,
        times={"in_progress": START},
        model="m",
        total=3,
        failures=[BatchError("code", "message", None, 2)],
        progress=BatchProgress(done_to=2, done=[4], completed=2, output=[part], errors=[part]),
    )
    assert await batches.find("org-1", "proj-1", batch.id) == batch
    assert not await batches.insert(batch)
    for organisation, project in (("org-1", "proj-2"), ("org-2", "proj-1"), ("org-1", "")):
        assert await batches.find(organisation, project, batch.id) is None
        assert not await batches.cancel(organisation, project, batch.id, START)
        assert await batches.page(organisation, project, None, 9) == []


async def test_pages_are_newest_first(batches: BatchStore) -> None:
    made = [await insert(batches, f"batch_{number}", START + number // 2) for number in range(5)]
    made.sort(key=lambda each: (each.created, each.id), reverse=True)
    assert await batches.page("org-1", "proj-1", None, 2) == made[:2]
    assert await batches.page("org-1", "proj-1", made[1], 9) == made[2:]


@pytest.mark.parametrize("state", list(BatchState))
async def test_open_batches_are_claimed_once_their_lease_has_ended(batches: BatchStore, state: BatchState) -> None:
    assert state.is_open is (state in OPEN)
    batch = await insert(batches, state=state)
    claimed = await batches.claim(RUNNER, START, START + 30)
    if not state.is_open:
        assert claimed is None
        return
    assert claimed == replace(batch, runner=RUNNER, lease=START + 30)
    assert await batches.claim(OTHER, START + 29, START + 59) is None
    taken = await batches.claim(OTHER, START + 30, START + 60)
    assert taken is not None
    assert taken.runner == OTHER


async def test_one_of_several_gateways_claims_the_oldest_batch(batches: BatchStore) -> None:
    await insert(batches, "batch_2", START + 1)
    await insert(batches, "batch_1", START)
    claims = await asyncio.gather(*(batches.claim(f"gateway-{n}", START + 5, START + 35) for n in range(4)))
    assert sorted(each.id for each in claims if each is not None) == ["batch_1", "batch_2"]


async def test_batches_of_some_organisations_are_passed_over(batches: BatchStore) -> None:
    batch = await insert(batches)
    assert await batches.claim(RUNNER, START, START + 30, {"org-1"}) is None
    claimed = await batches.claim(RUNNER, START, START + 30, {"org-2"})
    assert claimed is not None
    assert claimed.id == batch.id


async def test_only_the_holder_of_the_lease_changes_a_batch(batches: BatchStore) -> None:
    batch, progress = await insert(batches), BatchProgress(done_to=1, completed=1)
    await batches.claim(RUNNER, START, START + 30)
    change = {"state": BatchState.IN_PROGRESS, "times.in_progress": START, "total": 2}
    assert not await batches.change(batch.id, OTHER, BatchState.VALIDATING, change)
    assert not await batches.change(batch.id, RUNNER, BatchState.FINALIZING, change)
    assert await batches.change(batch.id, RUNNER, BatchState.VALIDATING, change)
    assert not await batches.save(batch.id, OTHER, progress)
    assert await batches.save(batch.id, RUNNER, progress)
    assert await batches.renew(batch.id, OTHER, START + 90) is None
    renewed = await batches.renew(batch.id, RUNNER, START + 60)
    assert renewed is not None
    assert (renewed.state, renewed.total, renewed.progress) == (BatchState.IN_PROGRESS, 2, progress)
    assert (renewed.times, renewed.lease) == ({"in_progress": START}, START + 60)
    failures = [BatchError("empty_file", "No lines.")]
    failed = {"state": BatchState.FAILED, "failures": failures}
    assert await batches.change(batch.id, RUNNER, BatchState.IN_PROGRESS, failed)
    found = await batches.find("org-1", "proj-1", batch.id)
    assert found is not None
    assert found.failures == failures
    assert not await batches.save(batch.id, RUNNER, progress)  # it has ended


@pytest.mark.parametrize("state", list(BatchState))
async def test_what_has_begun_to_end_is_not_cancelled(batches: BatchStore, state: BatchState) -> None:
    batch = await insert(batches, state=state)
    cancellable = state in (BatchState.VALIDATING, BatchState.IN_PROGRESS)
    assert await batches.cancel("org-1", "proj-1", batch.id, START + 5) is cancellable
    found = await batches.find("org-1", "proj-1", batch.id)
    assert found is not None
    assert found.state is (BatchState.CANCELLING if cancellable else state)
    assert found.times == ({"cancelling": START + 5} if cancellable else {})
