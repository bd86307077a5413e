"""Sets of passages in MongoDB and in memory: shared by references, built by one process, erased with the last file."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.store.connection import StoreConnection
from documents.content import Passage
from stored_objects.store.passages import BLOCKS, SETS, MongoPassages
from stored_objects.vector_stores.passages import PassageBlock, PassageSet, PassageStore, SetState
from tests.fakes.vector_stores import DictPassages
from tests.stored_objects.conftest import START

RUNNER, OTHER = "gateway-1", "gateway-2"
SET = PassageSet("set", "org-1", START)


@pytest.fixture(params=["memory", pytest.param("store", marks=pytest.mark.store)])
def passages(request: pytest.FixtureRequest) -> PassageStore:
    if request.param == "memory":
        return DictPassages()
    return MongoPassages(request.getfixturevalue("connection"))


def block(number: int, text: str = "Umowa najmu", set: str = "set") -> PassageBlock:
    passage = Passage(text, 3, ("Umowa", "§ 1"), 10, 21, 5)
    return PassageBlock(set, number, [passage, replace_page(passage)], b"\x00\x3c" * 8)


def replace_page(passage: Passage) -> Passage:
    return Passage(passage.text, None, (), passage.start, passage.end, passage.tokens)


async def build(passages: PassageStore, blocks: int = 2) -> None:
    assert await passages.keep(SET, "file-1") is not None
    assert await passages.claim("set", RUNNER, START, START + 30)
    for number in range(blocks):
        assert await passages.add(SET, block(number))


async def test_a_set_is_kept_by_each_reference_once(passages: PassageStore) -> None:
    assert await passages.keep(SET, "file-1") == replace(SET, references=["file-1"], kept=1)
    expected = replace(SET, references=["file-1", "file-2"], kept=2)
    assert await passages.keep(replace(SET, created=START + 9), "file-2") == expected
    assert await passages.keep(SET, "file-2") == expected


async def test_one_process_builds_a_set_at_a_time(passages: PassageStore) -> None:
    assert not await passages.claim("set", RUNNER, START, START + 30)
    await passages.keep(SET, "file-1")
    assert await passages.claim("set", RUNNER, START, START + 30)
    assert await passages.claim("set", RUNNER, START + 5, START + 35)
    assert not await passages.claim("set", OTHER, START + 34, START + 64)
    assert await passages.claim("set", OTHER, START + 35, START + 65)
    assert not await passages.finish("set", RUNNER, 0)
    assert await passages.finish("set", OTHER, 0)
    assert not await passages.claim("set", OTHER, START + 99, START + 129)


async def test_blocks_are_read_in_order_by_their_organisation_only(passages: PassageStore) -> None:
    await build(passages)
    assert await passages.add(SET, block(1, "another text"))  # the stored one stays
    assert await passages.written(SET) == 2
    assert await passages.finish("set", RUNNER, 2)
    assert not await passages.add(SET, block(2))
    assert await passages.written(SET) == 2
    assert await passages.read("org-1", "set", 0, 9) == [block(0), block(1)]
    assert await passages.read("org-1", "set", 1, 9) == [block(1)]
    assert await passages.read("org-1", "set", 0, 1) == [block(0)]
    assert await passages.read("org-2", "set", 0, 9) == []
    kept = await passages.keep(SET, "file-2")
    assert kept is not None
    assert (kept.is_ready, kept.blocks) == (True, 2)


async def test_the_last_release_erases_a_set_and_its_blocks(passages: PassageStore) -> None:
    await build(passages)
    await passages.keep(SET, "file-2")
    await passages.release({"file-1": "set"})
    await passages.release({"file-1": "set"})
    assert await passages.written(SET) == 2
    await passages.release({"file-2": "set"})
    assert await passages.written(SET) == 0
    assert not await passages.add(SET, block(2))  # by a process that has not noticed
    assert await passages.written(SET) == 0
    assert await passages.keep(SET, "file-3") == replace(SET, references=["file-3"], kept=1)


async def test_references_to_one_set_and_to_others_are_released_together(passages: PassageStore) -> None:
    await build(passages)
    await passages.keep(SET, "file-2")
    await passages.keep(replace(SET, id="other"), "file-3")
    await passages.keep(replace(SET, id="shared"), "file-4")
    await passages.keep(replace(SET, id="shared"), "file-5")
    await passages.release({"file-1": "set", "file-2": "set", "file-3": "other", "file-4": "shared", "file-6": "set"})
    assert await passages.written(SET) == 0
    assert await passages.keep(replace(SET, id="other"), "file-7") == replace(
        SET, id="other", references=["file-7"], kept=1
    )
    assert await passages.keep(replace(SET, id="shared"), "file-5") == replace(
        SET, id="shared", references=["file-5"], kept=1
    )


async def test_a_reference_and_the_last_release_at_once_leave_a_set_or_none(passages: PassageStore) -> None:
    await build(passages)
    kept, _ = await asyncio.gather(passages.keep(SET, "file-2"), passages.release({"file-1": "set"}))
    assert await passages.written(SET) == (2 if kept is not None and kept.runner else 0)


async def test_a_late_import_changes_nothing_of_a_set_that_was_built_again(passages: PassageStore) -> None:
    await build(passages)
    await passages.release({"file-1": "set"})
    again = replace(SET, build="again")
    assert await passages.keep(again, "file-2") is not None
    assert not await passages.add(SET, block(2))
    assert await passages.written(again) == 0
    assert await passages.add(again, block(0))
    assert not await passages.add(SET, block(0, "another text"))
    assert await passages.read("org-1", "set", 0, 9) == [block(0)]


@pytest.mark.store
async def test_a_late_import_deletes_no_block_of_a_build_that_another_has_completed(
    connection: StoreConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, passages = MongoPassages(connection), MongoPassages(connection)
    find = late._sets.find_one

    async def late_find(*query: dict[str, Any]) -> Any:
        assert await passages.claim("set", OTHER, START + 30, START + 60)
        assert await passages.written(SET) == 2
        assert await passages.finish("set", OTHER, 2)
        return await find(*query)

    await build(passages, blocks=1)
    monkeypatch.setattr(late._sets, "find_one", late_find)
    assert not await late.add(SET, block(1))
    assert await passages.read("org-1", "set", 0, 9) == [block(0), block(1)]


@pytest.mark.store
async def test_an_interrupted_erasure_is_finished_by_a_sweep(connection: StoreConnection) -> None:
    passages = MongoPassages(connection)
    await build(passages)
    erasing = {"state": SetState.ERASING.value, "references": [], "kept": 0}
    await connection.durable(SETS).update_matching({"_id": "set"}, {"$set": erasing})
    assert await passages.keep(SET, "file-2") is None
    assert await passages.written(SET) == 2
    assert await passages.erase_unkept(9) == 1
    assert await passages.written(SET) == 0
    assert await passages.erase_unkept(9) == 0
    assert await passages.keep(SET, "file-2") is not None


@pytest.mark.store
async def test_a_late_erasure_deletes_nothing_of_a_set_that_was_built_again(
    connection: StoreConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both an erasure of a set of an earlier version, whose blocks name no build, and one of a build."""
    late, passages, again = MongoPassages(connection), MongoPassages(connection), SET
    delete = late._blocks.delete_many

    async def late_delete(query: dict[str, Any]) -> None:
        assert await passages.erase_unkept(9) == 1
        assert await passages.keep(again, "file-2") is not None
        assert await passages.add(again, block(0))
        await delete(query)

    monkeypatch.setattr(late._blocks, "delete_many", late_delete)
    await build(passages)
    for number, reference in enumerate(("file-1", "file-2")):
        again = replace(SET, build=f"build-{number}")
        await late.release({reference: "set"})
        assert await passages.written(again) == 1
        kept = await passages.keep(again, "file-2")
        assert kept is not None
        assert kept.build == again.build


@pytest.mark.store
async def test_passages_of_earlier_versions_are_read_and_erased(connection: StoreConnection) -> None:
    passages = MongoPassages(connection)
    await build(passages)
    for name in (SETS, BLOCKS):
        await connection.durable(name).update_many({}, {"$unset": {"build": ""}})
    assert await passages.add(SET, block(2))
    assert await passages.finish("set", RUNNER, 3)
    assert await passages.read("org-1", "set", 1, 9) == [block(1), block(2)]
    await passages.release({"file-1": "set"})
    assert await connection.durable(BLOCKS).count_documents({}) == 0
    assert await passages.erase_unkept(9) == 0
