"""Sets of passages in MongoDB and in memory: shared by references, built by one process, erased with the last file."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from auth_billing.store.connection import StoreConnection
from documents.content import Passage
from stored_objects.store.passages import SETS, MongoPassages
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
        assert await passages.add("org-1", block(number))


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
    assert await passages.add("org-1", block(1, "another text"))  # the stored one stays
    assert await passages.written("set") == 2
    assert await passages.finish("set", RUNNER, 2)
    assert not await passages.add("org-1", block(2))
    assert await passages.written("set") == 2
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
    assert await passages.written("set") == 2
    await passages.release({"file-2": "set"})
    assert await passages.written("set") == 0
    assert not await passages.add("org-1", block(2))  # by a process that has not noticed
    assert await passages.written("set") == 0
    assert await passages.keep(SET, "file-3") == replace(SET, references=["file-3"], kept=1)


async def test_references_to_one_set_and_to_others_are_released_together(passages: PassageStore) -> None:
    await build(passages)
    await passages.keep(SET, "file-2")
    await passages.keep(replace(SET, id="other"), "file-3")
    await passages.keep(replace(SET, id="shared"), "file-4")
    await passages.keep(replace(SET, id="shared"), "file-5")
    await passages.release({"file-1": "set", "file-2": "set", "file-3": "other", "file-4": "shared", "file-6": "set"})
    assert await passages.written("set") == 0
    assert await passages.keep(replace(SET, id="other"), "file-7") == replace(
        SET, id="other", references=["file-7"], kept=1
    )
    assert await passages.keep(replace(SET, id="shared"), "file-5") == replace(
        SET, id="shared", references=["file-5"], kept=1
    )


async def test_a_reference_and_the_last_release_at_once_leave_a_set_or_none(passages: PassageStore) -> None:
    await build(passages)
    kept, _ = await asyncio.gather(passages.keep(SET, "file-2"), passages.release({"file-1": "set"}))
    assert await passages.written("set") == (2 if kept is not None and kept.runner else 0)


@pytest.mark.store
async def test_an_interrupted_erasure_is_finished_by_a_sweep(connection: StoreConnection) -> None:
    """Not before its lease has ended: a set built anew would lose blocks to an erasure that is late."""
    now = START
    passages = MongoPassages(connection, clock=lambda: now)
    await build(passages)
    erasing = {"state": SetState.ERASING.value, "references": [], "kept": 0, "runner": "eraser", "lease": START + 1}
    await connection.durable(SETS).update_matching({"_id": "set"}, {"$set": erasing})
    assert await passages.keep(SET, "file-2") is None
    assert await passages.erase_unkept(9) == 0
    assert await passages.written("set") == 2
    now += 1
    assert await passages.erase_unkept(9) == 1
    assert await passages.written("set") == 0
    assert await passages.erase_unkept(9) == 0
    assert await passages.keep(SET, "file-2") is not None
