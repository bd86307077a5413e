"""Keeps sets of passages and their blocks in MongoDB.

passage_sets    {_id: id, build, organisation, created, state, references: [file key, ...], kept, blocks, runner, lease}
passage_blocks  {_id: "set/build/00000000", set, build, organisation, passages: MessagePack, vectors: binary}

Blocks and sets of earlier versions have no `build`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import msgspec

from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document
from documents.content import Passage
from stored_objects.vector_stores.passages import PassageBlock, PassageSet, SetState

SETS, BLOCKS = "passage_sets", "passage_blocks"
"""Collections of sets of passages, and of their blocks."""
_NOT_ERASING = {"state": {"$ne": SetState.ERASING.value}}
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[Passage])


class MongoPassages:
    """MongoDB implementation of `vector_stores.passages.PassageStore`. Writes are journaled."""

    def __init__(self, connection: StoreConnection) -> None:
        self._sets = connection.durable(SETS)
        self._blocks = connection.durable(BLOCKS)

    async def keep(self, new: PassageSet, reference: str) -> PassageSet | None:
        """Add a reference to a set in MongoDB, inserting the set first if need be; `None`: it is being erased."""
        first = replace(new, references=[reference], kept=1)
        if await self._sets.insert_if_absent(to_document(first, state=first.state.value)):
            return first
        absent = {"_id": new.id, **_NOT_ERASING, "references": {"$ne": reference}}
        change = {"$push": {"references": reference}, "$inc": {"kept": 1}}
        await self._sets.update_matching(absent, change)
        return await self._sets.find_record(_set, {"_id": new.id, "references": reference, **_NOT_ERASING})

    async def claim(self, id: str, runner: str, now: float, lease: float) -> bool:
        """Give a set that is being built, and that no other process holds, to `runner` in MongoDB."""
        free = {"$or": [{"runner": runner}, {"lease": {"$lte": now}}]}
        query = {"_id": id, "state": SetState.BUILDING.value, **free}
        return await self._sets.update_matching(query, {"$set": {"runner": runner, "lease": lease}})

    async def written(self, passages: PassageSet) -> int:
        """Count the blocks of a set's build in MongoDB."""
        return int(await self._blocks.count_documents({"set": passages.id, "build": passages.build or None}))

    async def add(self, passages: PassageSet, block: PassageBlock) -> bool:
        """Insert a block of a set into MongoDB, unless it is there; return false if this build of the set has ended."""
        document = {
            "_id": _block_id(block.set, passages.build, block.number),
            "set": block.set,
            "build": passages.build or None,
            "organisation": passages.organisation,
            "passages": _encoder.encode(block.passages),
            "vectors": block.vectors,
        }
        is_new = await self._blocks.insert_if_absent(document)
        found = await self._sets.find_one({"_id": block.set}, {"build": 1, "state": 1, "blocks": 1})
        is_of_build = found is not None and found.get("build", "") == passages.build
        if is_of_build and found["state"] == SetState.BUILDING.value:
            return True
        # Another import may have counted the block since it was inserted, and completed the build.
        is_counted = is_of_build and found["state"] == SetState.READY.value and block.number < found["blocks"]
        if is_new and not is_counted:  # an erasure of the build may have been before it
            await self._blocks.delete_one({"_id": document["_id"]})
        return False

    async def finish(self, id: str, runner: str, blocks: int) -> bool:
        """Make a set ready in MongoDB; return false if `runner` does not hold it."""
        query = {"_id": id, "state": SetState.BUILDING.value, "runner": runner}
        return await self._sets.update_matching(query, {"$set": {"state": SetState.READY.value, "blocks": blocks}})

    async def read(self, organisation: str, id: str, start: int, limit: int) -> list[PassageBlock]:
        """Read up to `limit` blocks of a set of an organisation from number `start` on from MongoDB, in order."""
        stored = await self._sets.find_one({"_id": id}, {"build": 1})
        if stored is None:
            return []
        build = stored.get("build", "")
        of_build = {"set": id, "build": build or None, "organisation": organisation}
        query = {**of_build, "_id": {"$gte": _block_id(id, build, start)}}
        found = await self._blocks.find(query).sort("_id", 1).limit(limit).to_list(limit)
        return [_block(each) for each in found]

    async def release(self, references: Mapping[str, str]) -> None:
        """Remove references, each from the set whose id it has here, in MongoDB, and erase sets that have none left."""
        by_set: dict[str, list[str]] = {}
        for reference, id in references.items():
            by_set.setdefault(id, []).append(reference)
        for one_of_each in zip_longest(*by_set.values()):  # an update changes `kept` of each set by 1
            some = {"$in": [each for each in one_of_each if each is not None]}
            change = {"$pull": {"references": some}, "$inc": {"kept": -1}}
            await self._sets.update_many({"_id": {"$in": list(by_set)}, "references": some}, change)
        if by_set:
            await self._erase_unkept({"_id": {"$in": list(by_set)}}, len(by_set))

    async def erase_unkept(self, limit: int) -> int:
        """Erase up to `limit` sets without references, and those whose erasure was interrupted, from MongoDB."""
        return await self._erase_unkept({}, limit)

    async def _erase_unkept(self, query: dict[str, Any], limit: int) -> int:
        """Erase builds of sets, so that no late erasure deletes the blocks of a set that is built again."""
        found = await self._sets.find({**query, "kept": 0}, {"_id": 1}).limit(limit).to_list(limit)
        if found:
            ids = {"$in": [each["_id"] for each in found]}
            await self._sets.update_many({"_id": ids, "kept": 0}, {"$set": {"state": SetState.ERASING.value}})
            erasing = {"_id": ids, "state": SetState.ERASING.value}
            builds = {each["_id"]: each.get("build") async for each in self._sets.find(erasing, {"build": 1})}
            of_builds = {"$in": [None, *builds.values()]}  # a build has one set; blocks of earlier versions have none
            await self._blocks.delete_many({"set": {"$in": list(builds)}, "build": of_builds})
            await self._sets.delete_many({**erasing, "_id": {"$in": list(builds)}, "build": of_builds})
        return len(found)


def _block_id(set: str, build: str, number: int) -> str:
    return f"{set}/{build}/{number:08d}" if build else f"{set}/{number:08d}"


def _set(document: dict[str, Any]) -> PassageSet:
    return from_document(PassageSet, document, state=SetState(document["state"]))


def _block(document: dict[str, Any]) -> PassageBlock:
    number = int(document["_id"].rpartition("/")[2])
    return PassageBlock(document["set"], number, _decoder.decode(document["passages"]), bytes(document["vectors"]))
