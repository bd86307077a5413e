"""Factories of `StoredObjects` (blobs in a folder or S3, documents in MongoDB), `StoredDocuments`, `VectorStores`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from auth_billing.errors import StoreUnavailable
from auth_billing.store.connection import StoreConnection
from runtime.lifecycle import StartupError
from stored_objects.blobs.blobs import Blobs
from stored_objects.files.files import ProjectFiles
from stored_objects.objects.metrics import ObjectMetrics
from stored_objects.objects.objects import FileLimits, StoredObjects
from stored_objects.objects.quota import StorageQuotas
from stored_objects.project_documents.project_documents import ProjectDocuments, Retention, StoredDocuments
from stored_objects.project_documents.quota import DocumentQuota
from stored_objects.settings import BlobSettings, DocumentSettings
from stored_objects.store import documents
from stored_objects.store.batches import MongoBatchStore
from stored_objects.store.byte_counts import MongoByteCounts
from stored_objects.store.documents import MongoDocumentStore
from stored_objects.store.indexes import create_indexes
from stored_objects.store.objects import MongoObjectStore
from stored_objects.store.passages import MongoPassages
from stored_objects.store.response_runs import MongoResponseRuns
from stored_objects.store.vector_stores import MongoVectorStores
from stored_objects.vector_stores.vector_stores import VectorStores

MIB = 2**20
FOLDER = "blobs"
"""Folder in the installation's home where blobs are by default."""
CONNECT_TIMEOUT, READ_TIMEOUT = 5, 30
"""Seconds that S3 may take to connect, and between two pieces of an answer."""


def stored_objects(
    settings: BlobSettings, connection: StoreConnection, home: Path, registry: CollectorRegistry
) -> StoredObjects:
    """Create the `StoredObjects` service of the installation whose home directory is `home`.

    Reads and writes nothing yet.

    Raises:
        StartupError: a setting of the blobs is wrong.
    """
    records = MongoObjectStore(connection)
    quotas = StorageQuotas(
        MongoByteCounts(connection),
        [
            records,
            *(MongoDocumentStore(connection, each) for each in documents.COLLECTIONS),
            MongoVectorStores(connection),
        ],
        per_owner=settings.blobs_per_person_mib * MIB,
        per_project=settings.files_per_project_mib * MIB,
        per_organisation=settings.blobs_per_organisation_mib * MIB,
    )
    limits = FileLimits(settings.file_max_mib * MIB, settings.upload_max_mib * MIB)
    return StoredObjects(blobs_of(settings, home), records, quotas, ObjectMetrics(registry), limits)


def stored_documents(settings: DocumentSettings, connection: StoreConnection, quotas: StorageQuotas) -> StoredDocuments:
    """Create the services of the installation's project documents, which count in `quotas`.

    Reads and writes nothing yet.
    """
    retention, quota = Retention(settings.stored_days, settings.stored_days_by_project), DocumentQuota(quotas)
    collections = (documents.COMPLETIONS, documents.RESPONSES, documents.CONVERSATIONS)
    completions, responses, conversations = (
        ProjectDocuments(MongoDocumentStore(connection, each), retention, quota) for each in collections
    )
    return StoredDocuments(
        completions, responses, conversations, MongoResponseRuns(connection), MongoBatchStore(connection), quota
    )


def vector_stores(connection: StoreConnection, quota: DocumentQuota, objects: StoredObjects) -> VectorStores:
    """Create the service of the installation's vector stores, whose passages `quota` counts.

    Reads and writes nothing yet.
    """
    return VectorStores(MongoVectorStores(connection), MongoPassages(connection), quota, ProjectFiles(objects))


async def prepare(objects: StoredObjects, connection: StoreConnection) -> None:
    """Create MongoDB's indexes of stored objects and project documents, and check that blobs can be written.

    Call it once before the first request.

    Raises:
        StartupError: the store does not answer, or blobs can't be written.
    """
    try:
        await create_indexes(connection)
    except StoreUnavailable as error:
        raise StartupError(f"the store does not answer: {error}") from error
    await objects.blobs.check()


def blobs_of(settings: BlobSettings, home: Path) -> Blobs:
    """Create the `Blobs` that the settings name (folder or S3 bucket); without a setting those in a folder of `home`.

    Raises:
        StartupError: the secret's file can't be read, or the extra `s3` is not installed.
    """
    url = settings.blobs_url or f"file://{home / FOLDER}"
    options = _s3_options(settings) if url.startswith("s3:") else {}
    return Blobs(url, options, max_bytes=settings.blob_max_mib * MIB)


def _s3_options(settings: BlobSettings) -> dict[str, Any]:
    client = {"endpoint_url": settings.blobs_s3_endpoint, "region_name": settings.blobs_s3_region}
    options: dict[str, Any] = {
        "client_kwargs": {name: value for name, value in client.items() if value},
        "config_kwargs": {"connect_timeout": CONNECT_TIMEOUT, "read_timeout": READ_TIMEOUT},
        "use_listings_cache": False,
    }
    if settings.blobs_s3_key_id:
        options |= {"key": settings.blobs_s3_key_id, "secret": _secret(settings.blobs_s3_secret_file)}
    return options


def _secret(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"HEADRACE_BLOBS_S3_SECRET_FILE: {error}") from error
