"""Imports of files into vector stores, for the process that reads, cuts and embeds them: leases, passages, outcomes.

The steps of an import, each of which another process repeats without harm if this one dies:

    files = await imports.waiting(limit)
    file = await imports.claim(files[0], runner)    # then `renew` it at intervals
    passages = await imports.begin(file, id, size)  # reads and cuts the file; `id` by `passage_set_id`
    if not passages.is_ready:
        start = await imports.written(passages)     # blocks that an earlier try has embedded
        await imports.add(passages, block)          # for each further block
        await imports.finish(file, passages, blocks)
    await imports.complete(file)                    # or `fail`
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection

from stored_objects.errors import StoredObjectError
from stored_objects.vector_stores.completions import Completions
from stored_objects.vector_stores.passages import PassageBlock, PassageSet
from stored_objects.vector_stores.records import FileState, ImportFailure, VectorStoreFile
from stored_objects.vector_stores.vector_stores import VectorStores

LEASE = 30.0
"""Seconds for which a process may import a file unless it renews the lease."""
RETRY_TIME = 5.0
"""Seconds after which a file is imported that waits for another process."""


class ImportLost(StoredObjectError):
    """The file was deleted or cancelled, or another process imports it: the import ends here, without an outcome."""


class PassagesBusy(StoredObjectError):
    """Another import builds the passages of the same content, or they are being erased: the file is put back."""


class VectorStoreImports:
    """Runs the steps of imports on the records of a `VectorStores`.

    Methods raise `StoreUnavailable` if the store does not answer, and `ImportLost`.
    """

    def __init__(
        self, stores: VectorStores, *, clock: Callable[[], float] = time.time, completion_delay: float = 0.0
    ) -> None:
        """`completion_delay`: seconds that an import waits at its end for others, which are completed with it."""
        self.stores = stores
        self._clock = clock
        self._completions = Completions(stores.records, completion_delay)

    async def waiting(self, limit: int, passed_over: Collection[str] = ()) -> list[VectorStoreFile]:
        """Return up to `limit` files that no process imports, the oldest first, not of organisations `passed_over`."""
        return await self.stores.records.waiting(self._clock(), limit, passed_over)

    async def claim(self, file: VectorStoreFile, runner: str) -> VectorStoreFile | None:
        """Give the process `runner` a file of `waiting` to import for `LEASE` seconds, and return it.

        `None`: another process was faster, or the file has changed.
        """
        now = self._clock()
        return await self.stores.records.claim(file, runner, now, now + LEASE)

    async def renew(self, file: VectorStoreFile, passages: PassageSet | None = None) -> None:
        """Extend the lease on a file, and on the set of its passages once it is known, to `LEASE` seconds from now."""
        now = self._clock()
        if not await self.stores.records.renew(file, now + LEASE):
            raise ImportLost("another process imports the file, or it was cancelled or deleted")
        if passages is not None and not await self.stores.passages.claim(passages.id, _builder(file), now, now + LEASE):
            raise ImportLost("another process builds the passages")

    async def put_back(self, file: VectorStoreFile, seconds: float) -> None:
        """End the lease on a file, and let a process claim it after `seconds`."""
        await self.stores.records.renew(file, self._clock() + seconds)

    async def begin(self, file: VectorStoreFile, id: str, size: int) -> PassageSet:
        """Count the passages of a file, `size` bytes, and return their set, held by this import unless ready.

        Raises:
            StorageQuotaExceeded: the project or its organisation would store too much.
            PassagesBusy: another import builds the set, or it is being erased; the file is put back.
        """
        quota, records, passages = self.stores.quota, self.stores.records, self.stores.passages
        if file.passages not in ("", id):
            await passages.release({file.reference: file.passages})  # of an earlier try, with other parsers
        reserved = max(size - file.size, 0)
        await quota.reserve(file.owner, reserved)
        # The file names the set before the set refers to the file, so that a deletion releases the reference.
        if not await records.set_passages(file, id, size):
            await quota.release(file.owner, reserved)
            raise ImportLost("another process imports the file, or it was cancelled or deleted")
        await quota.release(file.owner, max(file.size - size, 0))
        now, builder = self._clock(), _builder(file)
        new = PassageSet(id, file.organisation, now, runner=builder, lease=now + LEASE, build=uuid.uuid4().hex)
        kept = await passages.keep(new, file.reference)
        if not await records.is_held(file):
            await passages.release({file.reference: id})
            raise ImportLost("the file was cancelled or deleted while its import began")
        is_held = kept is not None and kept.build == new.build
        if kept is None or not (kept.is_ready or is_held or await passages.claim(id, builder, now, now + LEASE)):
            await self.put_back(file, RETRY_TIME)
            raise PassagesBusy("another import builds the passages of the same content, or they are being erased")
        return kept

    async def written(self, passages: PassageSet) -> int:
        """Return the number of blocks of a set that earlier tries have stored."""
        return await self.stores.passages.written(passages)

    async def add(self, passages: PassageSet, block: PassageBlock) -> None:
        """Store the next block of a set."""
        if not await self.stores.passages.add(passages, block):
            raise ImportLost("the passages were deleted, or are complete")

    async def finish(self, file: VectorStoreFile, passages: PassageSet, blocks: int) -> None:
        """Make a set ready that has all its blocks."""
        if not await self.stores.passages.finish(passages.id, _builder(file), blocks):
            raise ImportLost("another process builds the passages")

    async def complete(self, file: VectorStoreFile, warning: str = "") -> None:
        """Complete the import of a file whose passages are ready: from now on searches find them."""
        if not await self._completions.complete(file, warning):
            raise ImportLost("another process imports the file, or it was cancelled or deleted")

    async def fail(self, file: VectorStoreFile, failure: ImportFailure) -> None:
        """End the import of a file with the reason for which it failed, and give back what it took."""
        if not await self.stores.records.fail(file, failure):
            raise ImportLost("another process imports the file, or it was cancelled or deleted")
        found = await self.stores.records.find_file(file.owner, file.vector_store, file.file)
        if found is not None and found.state is FileState.FAILED:
            await self.stores.release(found)


def _builder(file: VectorStoreFile) -> str:
    """Return the name of an import in the lease of a set: a process may import several files with one content."""
    return f"{file.runner}:{file.reference}"
