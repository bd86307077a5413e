"""Brings a search index up to date with its vector store, by the files that have changed since the index's position."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from documents.search.index import FileContent, IndexChanges, IndexedFile, SearchIndex
from documents.search.vectors import unpack_vectors
from stored_objects.vector_stores.passages import PassageBlock, PassageStore
from stored_objects.vector_stores.records import FileState, VectorStore, VectorStoreFile
from stored_objects.vector_stores.vector_stores import VectorStores

BLOCKS_AT_ONCE = 16
"""Blocks of passages that are read from the store at once."""
PASSAGES_AT_ONCE = 2000
"""Passages after which what an index has got so far is committed, so that a killed process need not begin again."""


async def update_index(index: SearchIndex, store: VectorStore, stores: VectorStores) -> None:
    """Apply to an index what has changed in its vector store, at least up to when `store` was read.

    Raises:
        StoreUnavailable: the store does not answer; what is applied so far stays.
    """
    is_known = index.position >= store.forgotten
    changed = await stores.records.changed_files(store.id, index.position if is_known else 0)
    completed = {each.id: each for each in changed if each.state is FileState.COMPLETED}
    gone = [each.id for each in changed if each.id not in completed]
    if not is_known:  # tombstones are missing, so all other files are gone
        gone = [key for key in index.files if key not in completed]
    gone = [key for key in gone if key in index.files]
    renamed, added = [], []
    for file in completed.values():
        known = index.files.get(file.id)
        if known is None or known.passages != file.passages:
            added.append(file)
        elif known.revision != file.revision:
            renamed.append(_indexed(file))
    if gone or renamed:
        await asyncio.to_thread(index.apply, IndexChanges(removed=gone, renamed=renamed))
    await _add(index, added, stores.passages)
    if store.change > index.position:
        await asyncio.to_thread(index.apply, IndexChanges(position=store.change))


async def _add(index: SearchIndex, files: Sequence[VectorStoreFile], passages: PassageStore) -> None:
    contents: list[FileContent] = []
    for file in files:
        async for part in _parts(file, passages):
            contents.append(part)
            if sum(len(each.passages) for each in contents) >= PASSAGES_AT_ONCE:
                await asyncio.to_thread(index.apply, IndexChanges(contents=contents))
                contents = []
    if contents:
        await asyncio.to_thread(index.apply, IndexChanges(contents=contents))


async def _parts(file: VectorStoreFile, store: PassageStore) -> AsyncIterator[FileContent]:
    """Read the passages of a file in parts; those of a file that is being deleted may be incomplete.

    Until its last part, the file names no passages, so that an update that is cut off begins the file again.
    """
    indexed = _indexed(file)
    number = start = 0
    while len(blocks := await store.read(file.organisation, file.passages, number, BLOCKS_AT_ONCE)) == BLOCKS_AT_ONCE:
        yield (part := await asyncio.to_thread(_part, replace(indexed, passages=""), blocks, start))
        number += len(blocks)
        start += len(part.passages)
    yield await asyncio.to_thread(_part, indexed, blocks, start)


def _part(file: IndexedFile, blocks: Sequence[PassageBlock], start: int) -> FileContent:
    passages = [each for block in blocks for each in block.passages]
    return FileContent(file, passages, unpack_vectors(b"".join(each.vectors for each in blocks), len(passages)), start)


def _indexed(file: VectorStoreFile) -> IndexedFile:
    return IndexedFile(file.id, file.name, file.attributes, file.passages, file.revision, file.expires)
