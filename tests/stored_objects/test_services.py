"""The factory of stored objects: documents in the store, blobs where the settings say, checked before use."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.store.connection import StoreConnection
from runtime.lifecycle import StartupError
from stored_objects.blobs.blobs import new_blob_id
from stored_objects.errors import BlobsUnavailable, StorageQuotaExceeded
from stored_objects.objects.records import RECORD_BYTES, ObjectKind
from stored_objects.project_documents.project_documents import NewDocument
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.services import blobs_of, prepare, stored_documents, stored_objects
from stored_objects.settings import BlobSettings, DocumentSettings
from tests.stored_objects.conftest import ADA


@pytest.mark.store
async def test_objects_of_the_settings(connection: StoreConnection, tmp_path: Path) -> None:
    settings = BlobSettings(blobs_per_person_mib=2, blobs_per_organisation_mib=3, blob_max_mib=1)
    objects = stored_objects(settings, connection, tmp_path, CollectorRegistry())
    await prepare(objects, connection)
    stored = await objects.put(ADA, bytes(2**20), kind=ObjectKind.FILE, media_type="application/pdf")
    assert await objects.get(ADA, stored.id) == bytes(2**20)
    assert list((tmp_path / "blobs").glob(f"*/{stored.id}"))
    with pytest.raises(StorageQuotaExceeded):
        await objects.put(ADA, bytes(2**20), kind=ObjectKind.FILE, media_type="application/pdf")
    objects.close()


@pytest.mark.store
async def test_documents_of_all_kinds_count_with_the_files_of_their_project(
    connection: StoreConnection, tmp_path: Path
) -> None:
    settings = BlobSettings(files_per_project_mib=4)
    objects = stored_objects(settings, connection, tmp_path, CollectorRegistry())
    documents = stored_documents(DocumentSettings(), connection, objects.quotas)
    project = ProjectOwner("org-1", "proj-1")
    for kind in documents.kinds:
        await kind.add(project, NewDocument("a", bytes(2**20)))
    with pytest.raises(StorageQuotaExceeded):
        await objects.put(project.quota_owner, bytes(2**20), kind=ObjectKind.FILE, media_type="text/plain")
    sums = [await each.stored_bytes("org-1", project.quota_owner.requester) for each in objects.quotas.stores]
    assert sums == [0, *[2**20 + RECORD_BYTES] * 3, 0]
    await documents.completions.delete(project, "a")
    await documents.quota.close()
    await objects.put(project.quota_owner, bytes(2**20), kind=ObjectKind.FILE, media_type="text/plain")
    objects.close()


@pytest.mark.store
async def test_a_folder_that_is_not_writable_is_refused(connection: StoreConnection, tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("")
    objects = stored_objects(BlobSettings(), connection, tmp_path, CollectorRegistry())
    with pytest.raises(StartupError, match="HEADRACE_BLOBS_URL"):
        await prepare(objects, connection)
    objects.close()


async def test_a_store_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    closed = StoreConnection("mongodb://127.0.0.1:9/none?serverSelectionTimeoutMS=50", operation_ms=200)
    objects = stored_objects(BlobSettings(), closed, tmp_path, CollectorRegistry())
    with pytest.raises(StartupError, match="store does not answer"):
        await prepare(objects, closed)
    objects.close()
    closed.close()


async def test_blobs_are_in_the_home_by_default(tmp_path: Path) -> None:
    blobs, blob = blobs_of(BlobSettings(blob_max_mib=3), tmp_path / "my home"), new_blob_id()
    await blobs.put(blob, b"content")
    assert [each.name for each in (tmp_path / "my home" / "blobs").glob("*/*")] == [blob]
    assert blobs.max_bytes == 3 * 2**20
    blobs.close()


def test_a_missing_secret_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = BlobSettings(blobs_url="s3://bucket", blobs_s3_key_id="id", blobs_s3_secret_file=str(tmp_path / "none"))
    with pytest.raises(StartupError, match="HEADRACE_BLOBS_S3_SECRET_FILE"):
        blobs_of(settings, tmp_path)


async def test_a_missing_bucket_is_refused_at_the_start(s3_settings: BlobSettings, tmp_path: Path) -> None:
    blobs = blobs_of(s3_settings.model_copy(update={"blobs_url": "s3://no-such-bucket"}), tmp_path)
    with pytest.raises(StartupError, match="HEADRACE_BLOBS_URL"):
        await blobs.check()
    with pytest.raises(BlobsUnavailable):
        await blobs.put(new_blob_id(), b"content")
    blobs.close()
