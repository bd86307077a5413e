"""Vector stores and passages in dictionaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from documents.search.filters import AttributeValue
from stored_objects.files.files import ProjectFiles
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import RECORD_BYTES, ObjectOwner
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.passages import PassageBlock, PassageSet, SetState
from stored_objects.vector_stores.records import (
    NEVER,
    UNNUMBERED,
    FileBatch,
    FileCounts,
    FileState,
    ImportFailure,
    PageQuery,
    Place,
    VectorStore,
    VectorStoreFile,
    place_of,
)
from stored_objects.vector_stores.vector_stores import VectorStores
from tests.fakes.byte_counts import document_quota

Record = TypeVar("Record", VectorStore, VectorStoreFile)


class DictVectorStores:
    """`vector_stores.record_store.VectorStoreStore` in dictionaries."""

    def __init__(self) -> None:
        self.stores: dict[str, VectorStore] = {}
        self.files: dict[str, VectorStoreFile] = {}
        self.batches: dict[str, FileBatch] = {}

    async def insert(self, record: VectorStore) -> None:
        self.stores.setdefault(record.id, record)

    async def find(self, reader: Reader, id: str) -> VectorStore | None:
        found = self.stores.get(id)
        return found if found is not None and _is_readable(found, reader) else None

    async def page(self, reader: Reader, query: PageQuery) -> list[VectorStore]:
        return _page([each for each in self.stores.values() if _is_readable(each, reader)], query)

    async def page_of_others(self, organisation: str, members: Collection[str], query: PageQuery) -> list[VectorStore]:
        own = [each for each in self.stores.values() if each.organisation == organisation and not each.deleted]
        return _page([each for each in own if each.person and each.person not in members], query)

    async def share(self, id: str, grantee: str) -> bool:
        if (found := self.stores.get(id)) is None or found.deleted:
            return False
        others = [each for each in found.shared_with if each != grantee]
        self.stores[id] = replace(found, shared_with=[*others, grantee])
        return True

    async def unshare(self, id: str, grantee: str) -> None:
        if (found := self.stores.get(id)) is not None:
            self.stores[id] = replace(found, shared_with=[each for each in found.shared_with if each != grantee])

    async def update(self, record: VectorStore) -> VectorStore | None:
        found = self.stores.get(record.id)
        if found is None or found.deleted:
            return None
        self.stores[record.id] = replace(
            record, change=found.change, forgotten=found.forgotten, shared_with=found.shared_with
        )
        return found

    async def remove(self, id: str) -> VectorStore | None:
        return self.stores.pop(id, None)

    async def hide(self, id: str, now: float) -> None:
        if id in self.stores:
            self.stores[id] = replace(self.stores[id], expires=now, deleted=True)

    async def expired(self, now: float, limit: int) -> list[VectorStore]:
        return [each for each in self.stores.values() if each.expires <= now][:limit]

    async def find_any(self, ids: Collection[str]) -> list[VectorStore]:
        return [each for each in self.stores.values() if each.id in ids]

    async def counts(self, vector_stores: Collection[str]) -> dict[str, FileCounts]:
        return {id: _counts(each for each in self.files.values() if each.vector_store == id) for id in vector_stores}

    async def batch_counts(self, batch: FileBatch) -> FileCounts:
        return _counts(each for each in self.files.values() if each.batch == batch.id)

    async def insert_batch(self, batch: FileBatch) -> None:
        self.batches.setdefault(batch.id, batch)

    async def find_batch(self, owner: ProjectOwner, vector_store: str, id: str) -> FileBatch | None:
        found = self.batches.get(id)
        if found is None or found.vector_store != vector_store:
            return None
        return found if owner == ProjectOwner(found.organisation, found.project) else None

    async def cancel_batch(self, batch: FileBatch) -> None:
        self.batches[batch.id] = replace(batch, cancelled=True)
        for each in list(self.files.values()):
            if each.batch == batch.id and each.state is FileState.IN_PROGRESS:
                self.files[each.id] = replace(each, state=FileState.CANCELLED)

    async def add_files(self, files: Sequence[VectorStoreFile]) -> int:
        grown = 0
        for each in files:
            found = self.files.get(each.id)
            if found is None:
                self.files[each.id] = each
                grown += each.record_size
            elif not found.state.needs_passages and not found.passages:
                grown += each.record_size - found.record_size
                kept = {name: getattr(found, name) for name in ("size", "revision", "change", "claims")}
                self.files[each.id] = replace(each, additions=found.additions + 1, **kept)
        return grown

    async def find_files(self, vector_store: str, files: Collection[str]) -> list[VectorStoreFile]:
        return [each for each in self.files.values() if each.vector_store == vector_store and each.file in files]

    async def of_file(self, owner: ProjectOwner, file: str) -> list[VectorStoreFile]:
        live = [each for each in self.files.values() if each.owner == owner and each.state is not FileState.DELETED]
        return [each for each in live if each.file == file]

    async def find_file(self, owner: ProjectOwner, vector_store: str, file: str) -> VectorStoreFile | None:
        found = await self.find_files(vector_store, [file])
        return next((each for each in found if each.owner == owner and each.state is not FileState.DELETED), None)

    async def page_files(
        self, vector_store: str, query: PageQuery, *, state: FileState | None = None, batch: str | None = None
    ) -> list[VectorStoreFile]:
        found = [
            each
            for each in self.files.values()
            if each.vector_store == vector_store
            and each.state is not FileState.DELETED
            and state in (None, each.state)
            and batch in (None, each.batch)
        ]
        return _page(found, query)

    async def expired_files(self, now: float, limit: int) -> list[VectorStoreFile]:
        live = [each for each in self.files.values() if each.state is not FileState.DELETED]
        return [each for each in live if each.expires <= now][:limit]

    async def set_attributes(self, file: VectorStoreFile, attributes: Mapping[str, AttributeValue]) -> bool:
        found = self.files.get(file.id)
        if found is None or found.revision != file.revision or found.state is FileState.DELETED:
            return False
        self._change(found, attributes=dict(attributes))
        return True

    async def delete_file(self, file: VectorStoreFile, now: float) -> VectorStoreFile | None:
        found = self.files.get(file.id)
        if found is None or found.state is FileState.DELETED:
            return None
        fields: dict[str, Any] = {"name": "", "attributes": {}, "batch": "", "failure": None, "expires": NEVER}
        self._change(found, state=FileState.DELETED, deleted=now, **fields)
        return found

    async def release_passages(self, file: VectorStoreFile) -> bool:
        found = self.files.get(file.id)
        if found is None or found.state.needs_passages:
            return False
        if (found.passages, found.additions) != (file.passages, file.additions):
            return False
        self.files[file.id] = replace(found, passages="", size=0)
        return True

    async def waiting(self, now: float, limit: int, passed_over: Collection[str] = ()) -> list[VectorStoreFile]:
        free = [each for each in self.files.values() if each.state is FileState.IN_PROGRESS and each.lease <= now]
        found = [each for each in free if each.organisation not in passed_over]
        return sorted(found, key=lambda each: each.created)[:limit]

    async def claim(self, file: VectorStoreFile, runner: str, now: float, lease: float) -> VectorStoreFile | None:
        if self.files.get(file.id) != file or file not in await self.waiting(now, len(self.files)):
            return None
        self.files[file.id] = replace(file, runner=runner, lease=lease, claims=file.claims + 1)
        return self.files[file.id]

    async def is_held(self, file: VectorStoreFile) -> bool:
        return self._held(file) is not None

    async def renew(self, file: VectorStoreFile, lease: float) -> bool:
        return self._set_held(file, lease=lease)

    async def set_passages(self, file: VectorStoreFile, passages: str, size: int) -> bool:
        return self._set_held(file, passages=passages, size=size)

    async def complete(self, files: Sequence[VectorStoreFile], warning: str = "") -> list[bool]:
        for held in filter(None, map(self._held, files)):
            self._change(held, state=FileState.COMPLETED, warning=warning)
        found = [self.files.get(each.id) for each in files]
        return [
            stored is not None
            and (stored.state, stored.runner, stored.claims) == (FileState.COMPLETED, each.runner, each.claims)
            for stored, each in zip(found, files, strict=True)
        ]

    async def fail(self, file: VectorStoreFile, failure: ImportFailure) -> bool:
        return self._set_held(file, state=FileState.FAILED, failure=failure)

    async def changed_files(self, vector_store: str, since: int) -> list[VectorStoreFile]:
        return [each for each in self.files.values() if each.vector_store == vector_store and each.change > since]

    async def unnumbered(self, limit: int) -> list[VectorStoreFile]:
        return [each for each in self.files.values() if each.change == UNNUMBERED][:limit]

    async def number(self, files: Sequence[VectorStoreFile]) -> None:
        for store in [self.stores[id] for id in {each.vector_store for each in files} if id in self.stores]:
            self.stores[store.id] = replace(store, change=store.change + 1)
            for file in files:
                found = self.files.get(file.id) if file.vector_store == store.id else None
                if found is not None and (found.revision, found.change) == (file.revision, UNNUMBERED):
                    self.files[file.id] = replace(found, change=store.change + 1)

    async def unreleased(self, limit: int) -> list[VectorStoreFile]:
        return [each for each in self.files.values() if each.passages and not each.state.needs_passages][:limit]

    async def forget(self, deleted_before: float, limit: int) -> int:
        old = [
            each
            for each in self.files.values()
            if each.state is FileState.DELETED
            and each.deleted < deleted_before
            and not each.passages
            and each.change != UNNUMBERED
        ][:limit]
        for each in old:
            if (store := self.stores.get(each.vector_store)) is not None:
                self.stores[store.id] = replace(store, forgotten=max(store.forgotten, each.change))
            del self.files[each.id]
        return len(old)

    async def remaining(self, vector_store: str, limit: int) -> list[VectorStoreFile]:
        return [each for each in self.files.values() if each.vector_store == vector_store][:limit]

    async def remove_files(self, files: Sequence[VectorStoreFile]) -> list[VectorStoreFile]:
        def as_read(file: VectorStoreFile) -> tuple[str, int, int]:
            return file.passages, file.additions, file.revision

        removed = [each for each in files if each.id in self.files and as_read(self.files[each.id]) == as_read(each)]
        for each in removed:
            del self.files[each.id]
        return removed

    async def remove_batches(self, vector_store: str) -> int:
        before = len(self.batches)
        self.batches = {id: each for id, each in self.batches.items() if each.vector_store != vector_store}
        return before - len(self.batches)

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        def is_counted(record: VectorStore | VectorStoreFile | FileBatch) -> bool:
            owner = ObjectOwner.of_project(record.organisation, record.project)
            return record.organisation == organisation and requester in (None, owner.requester)

        files = sum(each.size + each.record_size for each in self.files.values() if is_counted(each))
        stores = sum(each.record_size for each in self.stores.values() if is_counted(each))
        return files + stores + sum(RECORD_BYTES for each in self.batches.values() if is_counted(each))

    def _change(self, file: VectorStoreFile, **fields: Any) -> None:
        self.files[file.id] = replace(file, revision=file.revision + 1, change=UNNUMBERED, **fields)

    def _held(self, file: VectorStoreFile) -> VectorStoreFile | None:
        found = self.files.get(file.id)
        if found is None or found.state is not FileState.IN_PROGRESS:
            return None
        return found if (found.runner, found.claims) == (file.runner, file.claims) else None

    def _set_held(self, file: VectorStoreFile, **fields: Any) -> bool:
        held = self._held(file)
        if held is not None:
            self.files[held.id] = replace(held, **fields)
        return held is not None


class DictPassages:
    """`vector_stores.passages.PassageStore` in dictionaries."""

    def __init__(self) -> None:
        self.sets: dict[str, PassageSet] = {}
        self.organisations: dict[tuple[str, int], str] = {}
        self.blocks: dict[tuple[str, int], PassageBlock] = {}

    async def keep(self, new: PassageSet, reference: str) -> PassageSet | None:
        found = self.sets.get(new.id, new)
        references = list(dict.fromkeys([*found.references, reference]))
        self.sets[new.id] = replace(found, references=references, kept=len(references))
        return self.sets[new.id]

    async def claim(self, id: str, runner: str, now: float, lease: float) -> bool:
        found = self.sets.get(id)
        if found is None or found.state is not SetState.BUILDING or (found.runner != runner and found.lease > now):
            return False
        self.sets[id] = replace(found, runner=runner, lease=lease)
        return True

    async def written(self, passages: PassageSet) -> int:
        return sum(1 for set, _ in self.blocks if set == passages.id) if self._has(passages) else 0

    async def add(self, passages: PassageSet, block: PassageBlock) -> bool:
        if not self._has(passages) or self.sets[block.set].state is not SetState.BUILDING:
            return False
        self.blocks.setdefault((block.set, block.number), replace(block, passages=list(block.passages)))
        self.organisations[block.set, block.number] = passages.organisation
        return True

    def _has(self, passages: PassageSet) -> bool:
        found = self.sets.get(passages.id)
        return found is not None and found.build == passages.build

    async def finish(self, id: str, runner: str, blocks: int) -> bool:
        found = self.sets.get(id)
        if found is None or found.state is not SetState.BUILDING or found.runner != runner:
            return False
        self.sets[id] = replace(found, state=SetState.READY, blocks=blocks)
        return True

    async def read(self, organisation: str, id: str, start: int, limit: int) -> list[PassageBlock]:
        keys = sorted(key for key in self.blocks if key[0] == id and key[1] >= start)
        return [self.blocks[key] for key in keys if self.organisations[key] == organisation][:limit]

    async def release(self, references: Mapping[str, str]) -> None:
        for reference, id in references.items():
            if (found := self.sets.get(id)) is not None:
                left = [each for each in found.references if each != reference]
                self.sets[id] = replace(found, references=left, kept=len(left))
                self._erase_unkept([id])

    async def erase_unkept(self, limit: int) -> int:
        return self._erase_unkept([id for id, each in self.sets.items() if each.kept == 0][:limit])

    def _erase_unkept(self, ids: Sequence[str]) -> int:
        unkept = [id for id in ids if self.sets[id].kept == 0]
        for id in unkept:
            del self.sets[id]
            self.blocks = {key: block for key, block in self.blocks.items() if key[0] != id}
        return len(unkept)


def _is_readable(store: VectorStore, reader: Reader) -> bool:
    may_read = not set(reader.grantees).isdisjoint(store.readers)
    return store.organisation == reader.organisation and may_read and not store.deleted


def vector_stores(objects: StoredObjects, clock: Callable[[], float] = time.time) -> VectorStores:
    """Vector stores and passages in memory; `objects` have the contents of files that people upload for them."""
    records = DictVectorStores()
    quota = document_quota([records], clock=clock)
    return VectorStores(records, DictPassages(), quota, ProjectFiles(objects), clock=clock)


def _counts(files: Any) -> FileCounts:
    live = [each for each in files if each.state is not FileState.DELETED]
    states = [each.state.value for each in live]
    return FileCounts(**{each: states.count(each) for each in set(states)}, size=sum(each.size for each in live))


def _page(records: list[Record], query: PageQuery) -> list[Record]:
    sign = 1 if query.order == "asc" else -1

    def is_between(place: Place) -> bool:
        bounds = ((query.after, sign), (query.before, -sign))
        return all(bound is None or (side > 0) is (key(place) > key(bound)) for bound, side in bounds) and not any(
            bound == place for bound, _ in bounds
        )

    def key(place: Place) -> tuple[float, str]:
        return place.created, place.id

    ordered = sorted(records, key=lambda each: key(place_of(each)), reverse=sign < 0)
    between = [each for each in ordered if is_between(place_of(each))]
    return between[-query.limit :] if query.is_backward else between[: query.limit]
