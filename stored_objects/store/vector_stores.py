"""Keeps vector stores, their batches and files in MongoDB, in a collection each.

vector_stores       {_id: id, organisation, readers: [grantee, ...], created, metadata: [[key, value], ...], ...}
vector_store_files  {_id: "vector store/file", vector_store, file, state, attributes: [[key, value], ...], ...}
vector_store_batches  {_id: id, vector_store, organisation, project, created, cancelled}
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from pymongo import ReturnDocument

from auth_billing.errors import StoreUnavailable
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document
from documents.search.filters import AttributeValue
from stored_objects.objects.records import RECORD_BYTES, is_project, project_id
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.store.documents import owned_by
from stored_objects.store.vector_store_documents import (
    SHOWN,
    document_of,
    file_of,
    pairs_of,
    read_page,
    readable_by,
    store_of,
)
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.records import (
    NEVER,
    UNNUMBERED,
    FileBatch,
    FileCounts,
    FileState,
    ImportFailure,
    PageQuery,
    VectorStore,
    VectorStoreFile,
    file_key,
)

STORES, FILES, BATCHES = "vector_stores", "vector_store_files", "vector_store_batches"
"""Collections of vector stores, of their files, and of batches of files."""
_COUNTED = (FileState.IN_PROGRESS, FileState.COMPLETED, FileState.FAILED, FileState.CANCELLED)
_ENDED = {"$in": [each.value for each in FileState if not each.needs_passages]}
_KEPT = frozenset({"_id", "size", "revision", "change", "additions", "claims"})
"""Fields of a file that stay as they are when it is added again."""
_LIVE = {"state": {"$ne": FileState.DELETED.value}}
_HELD = ("state", "runner", "claims")
"""Fields by which a process finds whether it holds a file."""

Key = TypeVar("Key", bound=Hashable)


class MongoVectorStores:
    """MongoDB implementation of `vector_stores.record_store.VectorStoreStore`. Writes are journaled."""

    def __init__(self, connection: StoreConnection) -> None:
        self._stores = connection.durable(STORES)
        self._files = connection.durable(FILES)
        self._batches = connection.durable(BATCHES)

    async def insert(self, record: VectorStore) -> None:
        """Insert a new vector store into MongoDB, unless it is there."""
        added = {"readers": record.readers, "record_size": record.record_size}
        document = to_document(record, metadata=pairs_of(record.metadata)) | added
        del document["shared_with"]
        await self._stores.insert_if_absent(document)

    async def find(self, reader: Reader, id: str) -> VectorStore | None:
        """Read one vector store that `reader` may read from MongoDB; `None` if there is none or it is deleted."""
        return await self._stores.find_record(store_of, {"_id": id, **readable_by(reader)})

    async def page(self, reader: Reader, query: PageQuery) -> list[VectorStore]:
        """Read a page of the vector stores that `reader` may read from MongoDB."""
        return [store_of(each) for each in await read_page(self._stores, readable_by(reader), query)]

    async def page_of_others(self, organisation: str, members: Collection[str], query: PageQuery) -> list[VectorStore]:
        """Read a page of an organisation's vector stores of people other than `members` from MongoDB."""
        others = {"organisation": organisation, "person": {"$gt": "", "$nin": list(members)}, **SHOWN}
        return [store_of(each) for each in await read_page(self._stores, others, query)]

    async def share(self, id: str, grantee: str) -> bool:
        """Add `grantee` to the readers of a vector store in MongoDB; false if it is gone or being deleted."""
        return await self._stores.update_matching({"_id": id, **SHOWN}, {"$addToSet": {"readers": grantee}})

    async def unshare(self, id: str, grantee: str) -> None:
        """Remove `grantee` from the readers of a vector store in MongoDB, unless it is the owner's."""
        found = await self._stores.find_record(store_of, {"_id": id})
        if found is not None and grantee != found.owner_grantee:
            await self._stores.update_matching({"_id": id}, {"$pull": {"readers": grantee}})

    async def update(self, record: VectorStore) -> VectorStore | None:
        """Store what clients may change of a vector store in MongoDB, and return it as it was.

        `None`: it is gone or being deleted.
        """
        change = {
            "name": record.name,
            "metadata": pairs_of(record.metadata),
            "last_active": record.last_active,
            "expiry_days": record.expiry_days,
            "expires": record.expires,
            "record_size": record.record_size,
        }
        before = await self._stores.find_one_and_update({"_id": record.id, **SHOWN}, {"$set": change})
        return None if before is None else store_of(before)

    async def remove(self, id: str) -> VectorStore | None:
        """Remove the document of a vector store from MongoDB, and return it; `None` if it is gone."""
        while (found := await self._stores.find_one({"_id": id})) is not None:
            as_found = {"_id": id, "record_size": found.get("record_size")}  # another call may change it meanwhile
            if (await self._stores.delete_one(as_found)).deleted_count:
                return store_of(found)
        return None

    async def hide(self, id: str, now: float) -> None:
        """Have a vector store, of any owner, expire `now` and be hidden in MongoDB; no effect if it is gone."""
        await self._stores.find_one_and_update({"_id": id}, {"$set": {"expires": now, "deleted": True}})

    async def expired(self, now: float, limit: int) -> list[VectorStore]:
        """Read up to `limit` vector stores of all owners that expired before `now` from MongoDB."""
        found = self._stores.find({"expires": {"$lte": now}}).limit(limit)
        return [store_of(each) for each in await found.to_list(limit)]

    async def find_any(self, ids: Collection[str]) -> list[VectorStore]:
        """Read the vector stores, of any owner, that have one of these ids from MongoDB."""
        found = self._stores.find({"_id": {"$in": list(ids)}})
        return [store_of(each) for each in await found.to_list(len(ids))] if ids else []

    async def counts(self, vector_stores: Collection[str]) -> dict[str, FileCounts]:
        """Count the files of each of these vector stores in MongoDB, by state."""
        found = await self._counts({"vector_store": {"$in": list(vector_stores)}}, "$vector_store")
        return {id: found.get(id, FileCounts()) for id in vector_stores}

    async def batch_counts(self, batch: FileBatch) -> FileCounts:
        """Count the files of one batch in MongoDB, by state."""
        found = await self._counts({"vector_store": batch.vector_store, "batch": batch.id}, "$batch")
        return found.get(batch.id, FileCounts())

    async def insert_batch(self, batch: FileBatch) -> None:
        """Insert a batch of files into MongoDB, unless it is there."""
        await self._batches.insert_if_absent(to_document(batch))

    async def find_batch(self, owner: ProjectOwner, vector_store: str, id: str) -> FileBatch | None:
        """Read one batch of files of a vector store of `owner` from MongoDB; `None` if there is none with this id."""
        query = {"_id": id, "vector_store": vector_store, **owned_by(owner)}
        return await self._batches.find_record(lambda found: from_document(FileBatch, found), query)

    async def cancel_batch(self, batch: FileBatch) -> None:
        """Mark a batch, and its files that are in progress, as cancelled in MongoDB."""
        await self._batches.update_matching({"_id": batch.id}, {"$set": {"cancelled": True}})
        running = {"vector_store": batch.vector_store, "batch": batch.id, "state": FileState.IN_PROGRESS.value}
        await self._files.update_many(running, {"$set": {"state": FileState.CANCELLED.value}})

    async def add_files(self, files: Sequence[VectorStoreFile]) -> int:
        """Insert files in progress into MongoDB; of those that are there, begin again the ended and not completed.

        Return by how many bytes the sum of `record_size` has grown.
        """
        inserted = await self._files.insert_new([document_of(each) for each in files])
        grown = sum(each.record_size for each, is_new in zip(files, inserted, strict=True) if is_new)
        stored = {each.id: each for each, is_new in zip(files, inserted, strict=True) if not is_new}
        found = self._files.find({"_id": {"$in": list(stored)}, "state": _ENDED, "passages": ""})
        for ended in [file_of(each) for each in await found.to_list(None)]:
            again = {name: value for name, value in document_of(stored[ended.id]).items() if name not in _KEPT}
            as_found = {"_id": ended.id, "additions": ended.additions, "revision": ended.revision, "passages": ""}
            if await self._files.update_matching(as_found, {"$set": again, "$inc": {"additions": 1}}):
                grown += stored[ended.id].record_size - ended.record_size
        return grown

    async def find_files(self, vector_store: str, files: Collection[str]) -> list[VectorStoreFile]:
        """Read those files and tombstones of a vector store that have one of these ids from MongoDB."""
        found = self._files.find({"_id": {"$in": [file_key(vector_store, each) for each in files]}})
        return [file_of(each) for each in await found.to_list(None)]

    async def of_file(self, owner: ProjectOwner, file: str) -> list[VectorStoreFile]:
        """Read one file of `owner` as all vector stores have it from MongoDB, without tombstones."""
        found = self._files.find({**owned_by(owner), "file": file, **_LIVE})
        return [file_of(each) for each in await found.to_list(None)]

    async def find_file(self, owner: ProjectOwner, vector_store: str, file: str) -> VectorStoreFile | None:
        """Read one file of a vector store of `owner` from MongoDB; `None` if it is a tombstone or absent."""
        query = {"_id": file_key(vector_store, file), **owned_by(owner), **_LIVE}
        return await self._files.find_record(file_of, query)

    async def page_files(
        self, vector_store: str, query: PageQuery, *, state: FileState | None = None, batch: str | None = None
    ) -> list[VectorStoreFile]:
        """Read a page of the files of a vector store, or of a batch of it, from MongoDB, in one or in any state."""
        selected: dict[str, Any] = {"vector_store": vector_store, **_LIVE}
        if state is not None:
            selected["state"] = state.value
        if batch is not None:
            selected["batch"] = batch
        return [file_of(each) for each in await read_page(self._files, selected, query)]

    async def expired_files(self, now: float, limit: int) -> list[VectorStoreFile]:
        """Read up to `limit` files of all vector stores that expired before `now` from MongoDB."""
        found = self._files.find({"expires": {"$lte": now}, **_LIVE}).limit(limit)
        return [file_of(each) for each in await found.to_list(limit)]

    async def set_attributes(self, file: VectorStoreFile, attributes: Mapping[str, AttributeValue]) -> bool:
        """Replace the attributes of a file of this revision in MongoDB, unnumbered; return false for another."""
        size = replace(file, attributes=dict(attributes)).record_size
        values = {"attributes": pairs_of(attributes), "record_size": size, "change": UNNUMBERED}
        change: dict[str, Any] = {"$set": values}
        return await self._files.update_matching(
            {"_id": file.id, "revision": file.revision, **_LIVE}, {**change, "$inc": {"revision": 1}}
        )

    async def delete_file(self, file: VectorStoreFile, now: float) -> VectorStoreFile | None:
        """Make a tombstone of a file in MongoDB, unnumbered, and return the file as it was; `None` if it is one."""
        tombstone = {
            "state": FileState.DELETED.value,
            "deleted": now,
            "expires": NEVER,
            "name": "",
            "attributes": [],
            "batch": "",
            "failure": None,
            "record_size": 0,
            "change": UNNUMBERED,
        }
        found = await self._files.find_one_and_update(
            {"_id": file.id, **_LIVE}, {"$set": tombstone, "$inc": {"revision": 1}}
        )
        return None if found is None else file_of(found)

    async def release_passages(self, file: VectorStoreFile) -> bool:
        """Remove id and size of the passages from a file that has ended in MongoDB; return false if it names others."""
        query = {"_id": file.id, "passages": file.passages, "additions": file.additions, "state": _ENDED}
        return await self._files.update_matching(query, {"$set": {"passages": "", "size": 0}})

    async def waiting(self, now: float, limit: int, passed_over: Collection[str] = ()) -> list[VectorStoreFile]:
        """Read up to `limit` files in progress without a live lease from MongoDB, the oldest first."""
        others = {"organisation": {"$nin": list(passed_over)}} if passed_over else {}
        query = {"state": FileState.IN_PROGRESS.value, "lease": {"$lte": now}, **others}
        found = await self._files.find(query).sort([("created", 1)]).limit(limit).to_list(limit)
        return [file_of(each) for each in found]

    async def claim(self, file: VectorStoreFile, runner: str, now: float, lease: float) -> VectorStoreFile | None:
        """Give a file that has not changed since it was read, and that no process holds, to `runner` in MongoDB."""
        as_read = {name: getattr(file, name) for name in ("claims", "additions", "revision")}
        query = {"_id": file.id, "state": FileState.IN_PROGRESS.value, "lease": {"$lte": now}, **as_read}
        change = {"$set": {"runner": runner, "lease": lease}, "$inc": {"claims": 1}}
        if not await self._files.update_matching(query, change):
            return None
        return replace(file, runner=runner, lease=lease, claims=file.claims + 1)

    async def is_held(self, file: VectorStoreFile) -> bool:
        """Read from MongoDB whether `file.runner` holds the lease of a file in progress."""
        found = await self._files.find_one({"_id": file.id}, dict.fromkeys(_HELD, 1))
        return found is not None and all(found[name] == value for name, value in _held(file).items())

    async def renew(self, file: VectorStoreFile, lease: float) -> bool:
        """Set the end of the lease of `file.runner` in MongoDB; return false if it does not hold it any more."""
        return await self._files.update_matching(_held(file), {"$set": {"lease": lease}})

    async def set_passages(self, file: VectorStoreFile, passages: str, size: int) -> bool:
        """Store id and size of the passages of a file that `file.runner` holds in MongoDB; return false for another."""
        return await self._files.update_matching(_held(file), {"$set": {"passages": passages, "size": size}})

    async def complete(self, files: Sequence[VectorStoreFile], warning: str = "") -> list[bool]:
        """Complete files in MongoDB, unnumbered; return for each whether it is completed by the process that held it.

        Those with the same number of claims take one update.
        """
        done = {"state": FileState.COMPLETED.value, "failure": None, "warning": warning, "change": UNNUMBERED}
        updated = 0
        for group in _groups(files, lambda each: (each.runner, each.claims)).values():
            query = {**_held(group[0]), "_id": {"$in": [each.id for each in group]}}
            updated += (await self._files.update_many(query, {"$set": done, "$inc": {"revision": 1}})).matched_count
        if updated == len(files):
            return [True] * updated
        found = await self._files.find({"_id": {"$in": [each.id for each in files]}}).to_list(len(files))
        completed = {(each["_id"], each["runner"], each["claims"]) for each in found if each["state"] == done["state"]}
        return [(each.id, each.runner, each.claims) in completed for each in files]

    async def fail(self, file: VectorStoreFile, failure: ImportFailure) -> bool:
        """Fail a file that `file.runner` holds in MongoDB; return false for any other."""
        change = {"state": FileState.FAILED.value, "failure": asdict(failure)}
        return await self._files.update_matching(_held(file), {"$set": change})

    async def changed_files(self, vector_store: str, since: int) -> list[VectorStoreFile]:
        """Read all files and tombstones of a vector store with a higher change number than `since` from MongoDB."""
        found = self._files.find({"vector_store": vector_store, "change": {"$gt": since}})
        return [file_of(each) for each in await found.to_list(None)]

    async def unnumbered(self, limit: int) -> list[VectorStoreFile]:
        """Read up to `limit` files and tombstones whose last change has no number from MongoDB."""
        found = self._files.find({"change": UNNUMBERED}).limit(limit)
        return [file_of(each) for each in await found.to_list(limit)]

    async def number(self, files: Sequence[VectorStoreFile]) -> None:
        """Take the next number of each vector store in MongoDB, then give it to its files' changes that have none."""
        for vector_store, changed in _groups(files, lambda each: each.vector_store).items():
            store = await self._stores.find_one_and_update(
                {"_id": vector_store}, {"$inc": {"change": 1}}, return_document=ReturnDocument.AFTER
            )
            if store is None:
                continue
            for revision, alike in _groups(changed, lambda each: each.revision).items():
                query = {"_id": {"$in": [each.id for each in alike]}, "revision": revision, "change": UNNUMBERED}
                await self._files.update_many(query, {"$set": {"change": store["change"]}})

    async def unreleased(self, limit: int) -> list[VectorStoreFile]:
        """Read up to `limit` tombstones, failed and cancelled files that name passages from MongoDB."""
        found = self._files.find({"state": _ENDED, "passages": {"$gt": ""}}).limit(limit)
        return [file_of(each) for each in await found.to_list(limit)]

    async def forget(self, deleted_before: float, limit: int) -> int:
        """Remove up to `limit` old tombstones from MongoDB, after their numbers are noted in their vector stores."""
        query = {
            "state": FileState.DELETED.value,
            "deleted": {"$lt": deleted_before},
            "passages": "",
            "change": {"$lt": UNNUMBERED},
        }
        found = await self._files.find(query).limit(limit).to_list(limit)
        for each in found:
            higher = {"_id": each["vector_store"], "forgotten": {"$lt": each["change"]}}
            await self._stores.update_matching(higher, {"$set": {"forgotten": each["change"]}})
            await self._files.delete_one({"_id": each["_id"], "revision": each["revision"], **query})
        return len(found)

    async def remaining(self, vector_store: str, limit: int) -> list[VectorStoreFile]:
        """Read up to `limit` files and tombstones of a vector store from MongoDB."""
        found = self._files.find({"vector_store": vector_store}).limit(limit)
        return [file_of(each) for each in await found.to_list(limit)]

    async def remove_files(self, files: Sequence[VectorStoreFile]) -> list[VectorStoreFile]:
        """Remove those files from MongoDB that have not changed since they were read; return them.

        Raises `StoreUnavailable` only if none could be removed, so that the caller counts those that were.
        """
        as_read = ("passages", "additions", "revision")
        queries = [{"_id": each.id, **{name: getattr(each, name) for name in as_read}} for each in files]
        results = await asyncio.gather(*(self._files.delete_one(each) for each in queries), return_exceptions=True)
        errors = [each for each in results if isinstance(each, BaseException)]
        others = [error for error in errors if not isinstance(error, StoreUnavailable)]
        removed = [
            each
            for each, result in zip(files, results, strict=True)
            if not isinstance(result, BaseException) and result.deleted_count
        ]
        if others or (errors and not removed):
            raise (others or errors)[0]
        return removed

    async def remove_batches(self, vector_store: str) -> int:
        """Remove all batches of a vector store from MongoDB; return their number."""
        return int((await self._batches.delete_many({"vector_store": vector_store})).deleted_count)

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Sum up in MongoDB the sizes of a project's or (`requester` is `None`) an organisation's records."""
        if requester is not None and not is_project(requester):
            return 0
        own = {"organisation": organisation} | ({} if requester is None else {"project": project_id(requester)})
        group = {"_id": None, "passages": {"$sum": "$size"}, "records": {"$sum": "$record_size"}}
        total = await self._batches.count_documents(own) * RECORD_BYTES
        for collection in (self._stores, self._files):
            found = await collection.aggregate([{"$match": own}, {"$group": group}]).to_list(1)
            total += sum(each["passages"] + each["records"] for each in found)
        return int(total)

    async def _counts(self, query: dict[str, Any], by: str) -> dict[str, FileCounts]:
        sums = {each.value: {"$sum": {"$cond": [{"$eq": ["$state", each.value]}, 1, 0]}} for each in _COUNTED}
        group = {"_id": by, "size": {"$sum": "$size"}, **sums}
        found = await self._files.aggregate([{"$match": {**query, **_LIVE}}, {"$group": group}]).to_list(None)
        return {each.pop("_id"): FileCounts(**each) for each in found}


def _held(file: VectorStoreFile) -> dict[str, Any]:
    return {"_id": file.id, "state": FileState.IN_PROGRESS.value, "runner": file.runner, "claims": file.claims}


def _groups(
    files: Sequence[VectorStoreFile], key: Callable[[VectorStoreFile], Key]
) -> dict[Key, list[VectorStoreFile]]:
    found: dict[Key, list[VectorStoreFile]] = {}
    for each in files:
        found.setdefault(key(each), []).append(each)
    return found
