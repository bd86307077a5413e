"""Searches in vector stores by indexes in local files, which are brought up to date from the store before each search.

The indexes of a process are in a folder of its own, `FOLDER/N`, which no other running process uses: the next process
goes on with what an earlier one has built. An index of a vector store that is gone is deleted within a minute.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from auth_billing.errors import StoreUnavailable
from documents.search.index import Hit, SearchIndex, SearchQuery
from runtime.fair_slots import FairSlots
from stored_objects.errors import StoredObjectError
from stored_objects.vector_stores.index_update import update_index
from stored_objects.vector_stores.records import VectorStore
from stored_objects.vector_stores.vector_stores import VectorStores

INTERVAL = 10.0
"""Seconds between two rounds that bring indexes up to date and delete those of vector stores that are gone."""
UPDATE_TIMEOUT = 10.0
"""Seconds for which a search waits until its index is up to date."""
SEARCH_THREADS = 2
"""Threads for searches, beside those for everything else, which slow searches don't take; organisations take turns."""
OPEN_INDEXES = 64
"""Indexes that stay open between searches."""

_log = structlog.get_logger(__name__)


class IndexNotReady(StoredObjectError):
    """The index of a vector store is still being built from the store; the search can be repeated later."""


@dataclass(eq=False)
class _OpenIndex:
    index: SearchIndex
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the update of the index."""
    users: int = 0
    """Searches and updates that use the index."""


class VectorStoreSearches:
    """Searches vector stores for one process; `run` keeps the indexes up to date beside the searches."""

    def __init__(
        self,
        stores: VectorStores,
        folder: Path,
        open_index: Callable[[Path], SearchIndex],
        *,
        update_timeout: float = UPDATE_TIMEOUT,
    ) -> None:
        """Create the searches, whose indexes are below `folder`; `open_index` opens the index in a folder of its own.

        Raises:
            OSError: the folder can't be written.
        """
        self._stores = stores
        self._open_index = open_index
        self._update_timeout = update_timeout
        self._indexes: dict[str, _OpenIndex] = {}
        """Open indexes by vector store, the one that was used last at the end."""
        self._opening = asyncio.Lock()
        self._positions: dict[str, int] = {}
        """Change numbers that indexes are at, open or not."""
        self._updates: set[asyncio.Task[None]] = set()
        self._turns = FairSlots(SEARCH_THREADS)
        self._threads = ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="vector-store-search")
        self._folder, self._lock = _own_folder(folder)

    async def search(self, store: VectorStore, query: SearchQuery) -> list[Hit]:
        """Search a vector store as it was when `store` was read, or later.

        Raises:
            IndexNotReady: its index is not up to date within `UPDATE_TIMEOUT`, because it is being built.
            StoreUnavailable: the store does not answer.
            DocumentNotFound: the vector store was deleted meanwhile.
        """
        await self._stores.searched(store)
        async with self._using(store.id) as opened:
            await self._updated(store)
            async with self._turns.take(store.organisation):
                return await asyncio.get_running_loop().run_in_executor(self._threads, opened.index.search, query)

    async def prepare(self, store: VectorStore) -> None:
        """Bring the index of a vector store up to date, so that a search right after it does not wait for it.

        Raises:
            IndexNotReady, StoreUnavailable, DocumentNotFound: as `search`.
        """
        async with self._using(store.id):
            await self._updated(store)

    async def _updated(self, store: VectorStore) -> None:
        """Wait until the index, which the caller uses, is up to date; the update goes on if that takes too long."""
        update = asyncio.create_task(self._update(store))
        self._updates.add(update)
        update.add_done_callback(self._updates.discard)
        await asyncio.wait({update}, timeout=self._update_timeout)
        if not update.done():
            raise IndexNotReady("the index of the vector store is being built")
        update.result()

    async def run(self) -> None:
        """Refresh the indexes at intervals until cancelled; a failure is logged, and the next round repeats it."""
        while True:
            try:
                await self.refresh()
            except (StoreUnavailable, IndexNotReady, OSError) as error:
                _log.warning("search indexes not refreshed", reason=str(error))
            await asyncio.sleep(INTERVAL)

    async def refresh(self) -> None:
        """Bring local indexes up to date, delete those of vector stores that are gone, and erase removed passages.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        ids = await asyncio.to_thread(lambda: [each.name for each in self._folder.iterdir() if each.is_dir()])
        found = {each.id: each for each in await self._stores.records.find_any(ids)}
        for id in ids:
            if id not in found:
                await self._discard(id)
            elif self._positions.get(id) != found[id].change:
                await self._update(found[id])
        for opened in list(self._indexes.values()):
            await asyncio.to_thread(opened.index.erase_remains)

    async def close(self) -> None:
        """Wait for running updates, and close all indexes."""
        await asyncio.gather(*self._updates, return_exceptions=True)
        for opened in self._indexes.values():
            opened.index.close()
        self._indexes.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)
        os.close(self._lock)

    async def _update(self, store: VectorStore) -> None:
        async with self._using(store.id) as opened, opened.lock:
            await update_index(opened.index, store, self._stores)
            self._positions[store.id] = opened.index.position

    @asynccontextmanager
    async def _using(self, id: str) -> AsyncIterator[_OpenIndex]:
        """Return a context manager with the index of a vector store, which stays open in its block.

        A damaged index is deleted, so that it is built anew.
        """
        async with self._opening:
            opened = self._indexes.pop(id, None)
            if opened is None:
                opened = _OpenIndex(await asyncio.to_thread(self._open_index, self._folder / id))
            self._indexes[id] = opened
        opened.users += 1
        try:
            yield opened
        except sqlite3.DatabaseError as error:
            _log.error("search index deleted, because its files are damaged", vector_store=id, reason=str(error))
            if self._indexes.get(id) is opened:
                await self._discard(id)
            raise IndexNotReady("the index of the vector store is damaged, and built again") from error
        finally:
            opened.users -= 1
            self._close_unused()

    def _close_unused(self) -> None:
        unused = [id for id, each in self._indexes.items() if not each.users]
        for id in unused[: max(len(self._indexes) - OPEN_INDEXES, 0)]:
            self._indexes.pop(id).index.close()

    async def _discard(self, id: str) -> None:
        """Delete the index of a vector store."""
        self._positions.pop(id, None)
        if (opened := self._indexes.pop(id, None)) is not None:
            opened.index.close()
        await asyncio.to_thread(shutil.rmtree, self._folder / id, ignore_errors=True)


def _own_folder(folder: Path) -> tuple[Path, int]:
    """Return the first folder below `folder` that no other process uses, and the descriptor of its lock."""
    number = 0
    while True:
        own = folder / str(number)
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            number += 1
        else:
            return own, lock
