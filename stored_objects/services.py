"""Factory of stored objects: blobs from the settings, documents and counts in the store."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from auth_billing.errors import StoreUnavailable
from auth_billing.store.connection import StoreConnection
from runtime.lifecycle import StartupError
from stored_objects.metrics import ObjectMetrics
from stored_objects.objects import StoredObjects
from stored_objects.quota import StorageQuotas
from stored_objects.settings import MIB, BlobSettings
from stored_objects.store.byte_counts import MongoByteCounts
from stored_objects.store.indexes import create_indexes
from stored_objects.store.objects import MongoObjectStore


def stored_objects(
    settings: BlobSettings, connection: StoreConnection, home: Path, registry: CollectorRegistry
) -> StoredObjects:
    """Return the stored objects of the installation whose home directory is `home`; nothing is read yet.

    Raises:
        StartupError: a setting of the blobs is wrong.
    """
    documents = MongoObjectStore(connection)
    quotas = StorageQuotas(
        MongoByteCounts(connection),
        documents,
        per_owner=settings.blobs_per_person_mib * MIB,
        per_organisation=settings.blobs_per_organisation_mib * MIB,
    )
    return StoredObjects(settings.blobs(home), documents, quotas, ObjectMetrics(registry))


async def prepare(objects: StoredObjects, connection: StoreConnection) -> None:
    """Create the store's indexes and check that blobs can be written; call this before the first request.

    Raises:
        StartupError: the store does not answer, or blobs can't be written.
    """
    try:
        await create_indexes(connection)
    except StoreUnavailable as error:
        raise StartupError(f"the store does not answer: {error}") from error
    await objects.blobs.check()
