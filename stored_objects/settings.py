"""Settings of stored objects: where blobs are, largest sizes, quotas, days of documents; read once at start-up.

Every process imports this module to know the names of all settings, so it must not import fsspec.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class DocumentSettings(BaseSettings):
    """Settings of the documents that projects keep, such as stored chat completions."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    stored_days: int = Field(
        30, ge=1, le=36_500, description="Days for which what a project stores, such as chat completions, is kept"
    )
    stored_days_by_project: dict[str, Annotated[int, Field(ge=1, le=36_500)]] = Field(
        {}, description='Days of single projects, as JSON: {"proj_abc": 7}'
    )


class BlobSettings(BaseSettings):
    """Settings of stored objects (`HEADRACE_BLOB…`), the same in gateways and assistants."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    blobs_url: str = Field(
        "",
        pattern=r"^((file|s3)://\S+)?$",
        description="Where images and files are stored: file:///FOLDER or s3://BUCKET/PREFIX, of this installation "
        "alone; empty: the folder blobs in the home directory (docs/storage.md)",
    )
    blobs_s3_endpoint: str = Field(
        "", pattern=r"^(https?://\S+)?$", description="Endpoint of an S3-compatible service; empty: that of AWS"
    )
    blobs_s3_region: str = Field("", description="Region of the bucket; empty: that of boto's configuration")
    blobs_s3_key_id: str = Field(
        "", description="Access key id of S3; empty: boto's sources of credentials, such as the role of the machine"
    )
    blobs_s3_secret_file: str = Field("", description="File with the secret of that access key")
    blob_max_mib: int = Field(32, ge=1, le=64, description="MiB of the largest image or file that is stored")
    blobs_per_person_mib: int = Field(
        1024, ge=1, le=2**30, description="MiB of images and files that one person or API key may store"
    )
    file_max_mib: int = Field(512, ge=1, le=8192, description="MiB of the largest file that one request uploads")
    upload_max_mib: int = Field(8192, ge=1, le=2**20, description="MiB of the largest file that is uploaded in parts")
    files_per_project_mib: int = Field(
        10_240,
        ge=1,
        le=2**30,
        description="MiB of files and documents, such as stored responses, that one project may store",
    )
    blobs_per_organisation_mib: int = Field(
        10_240, ge=1, le=2**30, description="MiB of images, files and documents that one organisation may store"
    )
