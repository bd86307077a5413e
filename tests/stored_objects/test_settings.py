"""Settings of stored objects: a folder of the home by default, S3 with credentials from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runtime.lifecycle import StartupError
from stored_objects.blobs import new_blob_id
from stored_objects.errors import BlobsUnavailable
from stored_objects.settings import BlobSettings


async def test_blobs_are_in_the_home_by_default(tmp_path: Path) -> None:
    blobs, blob = BlobSettings(blob_max_mib=3).blobs(tmp_path / "my home"), new_blob_id()
    await blobs.put(blob, b"content")
    assert [each.name for each in (tmp_path / "my home" / "blobs").glob("*/*")] == [blob]
    assert blobs.max_bytes == 3 * 2**20
    blobs.close()


@pytest.mark.parametrize(
    "wrong", [{"blobs_url": "http://host"}, {"blobs_url": "/folder"}, {"blob_max_mib": 0}, {"unknown": 1}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BlobSettings(**wrong)


def test_a_missing_secret_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = BlobSettings(blobs_url="s3://bucket", blobs_s3_key_id="id", blobs_s3_secret_file=str(tmp_path / "none"))
    with pytest.raises(StartupError, match="HEADRACE_BLOBS_S3_SECRET_FILE"):
        settings.blobs(tmp_path)


async def test_a_missing_bucket_is_refused_at_the_start(s3_settings: BlobSettings, tmp_path: Path) -> None:
    blobs = s3_settings.model_copy(update={"blobs_url": "s3://no-such-bucket"}).blobs(tmp_path)
    with pytest.raises(StartupError, match="HEADRACE_BLOBS_URL"):
        await blobs.check()
    with pytest.raises(BlobsUnavailable):
        await blobs.put(new_blob_id(), b"content")
    blobs.close()
