"""Creates, finds, lists and cancels the batches of projects. Gateways run them (`gateway/batches/`)."""

from __future__ import annotations

import time
from collections.abc import Callable

from auth_billing.access.principal import Principal
from auth_billing.ids import new_id
from stored_objects.errors import BatchEnded, DocumentNotFound
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import StoredObject
from stored_objects.project_documents.batches import BATCH_PREFIX, WINDOW, Batch, BatchState, BatchStore, Endpoint


class ProjectBatches:
    """The batches of all projects, each of which only callers of the same project find.

    Methods raise `StoreUnavailable` if the store does not answer.
    """

    def __init__(
        self,
        objects: StoredObjects,
        store: BatchStore,
        announce: Callable[[], None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`announce` is called when a batch was created, which can be run at once."""
        self._objects = objects
        self._store = store
        self._announce = announce
        self._clock = clock

    async def create(
        self,
        creator: Principal,
        file: StoredObject,
        endpoint: Endpoint,
        *,
        metadata: dict[str, str] | None = None,
        output_lifetime: float | None = None,
    ) -> Batch:
        """Create a batch of the requests in `file`, an object of the creator's project, and return its record.

        Raises:
            BlobNotFound: the file has expired.
        """
        now = self._clock()
        batch = Batch(
            id=new_id(BATCH_PREFIX),
            organisation=creator.tenant,
            project=creator.project,
            key_id=creator.key_id,
            user="" if creator.key_id else creator.user,
            endpoint=endpoint,
            input_file=file.id,
            input_name=file.name,
            created=now,
            expires=now + WINDOW,
            metadata=metadata,
            output_lifetime=output_lifetime,
        )
        await self._objects.keep(file.id, batch.owner, batch.id)
        await self._store.insert(batch)
        self._announce()
        return batch

    async def find(self, organisation: str, project: str, id: str) -> Batch:
        """Return one batch of a project.

        Raises:
            DocumentNotFound: the project has no such batch.
        """
        found = await self._store.find(organisation, project, id)
        if found is None:
            raise DocumentNotFound(id)
        return found

    async def page(self, organisation: str, project: str, *, after: str | None, limit: int) -> list[Batch]:
        """Return the batches of a project, newest first, at most `limit` after the batch with the id `after`.

        Raises:
            DocumentNotFound: the project has no batch `after`.
        """
        last = None if after is None else await self.find(organisation, project, after)
        return await self._store.page(organisation, project, last, limit)

    async def cancel(self, organisation: str, project: str, id: str) -> Batch:
        """Cancel a batch of a project and return it: running lines end, others are not requested. Idempotent.

        Raises:
            DocumentNotFound: the project has no such batch.
            BatchEnded: the batch is being finished, or has ended.
        """
        cancelled = await self._store.cancel(organisation, project, id, self._clock())
        batch = await self.find(organisation, project, id)
        if not cancelled and batch.state is not BatchState.CANCELLING:
            raise BatchEnded(f"A batch in the state '{batch.state}' can't be cancelled.")
        return batch
