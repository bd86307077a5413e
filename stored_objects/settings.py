"""Settings of stored objects: where blobs are, their largest size and the quotas; read once at start-up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.lifecycle import StartupError
from stored_objects.blobs import Blobs

MIB = 2**20
FOLDER = "blobs"
"""Folder in the installation's home where blobs are by default."""
CONNECT_TIMEOUT, READ_TIMEOUT = 5, 30
"""Seconds that S3 may take to connect, and between two pieces of an answer."""


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
    blobs_per_organisation_mib: int = Field(
        10_240, ge=1, le=2**30, description="MiB of images and files that one organisation may store"
    )

    def blobs(self, home: Path) -> Blobs:
        """Return the blobs that the settings name, by default those in a folder of `home`.

        Raises:
            StartupError: the secret's file can't be read, or the extra `s3` is not installed.
        """
        url = self.blobs_url or f"file://{home / FOLDER}"
        return Blobs(url, self._s3_options() if url.startswith("s3:") else {}, max_bytes=self.blob_max_mib * MIB)

    def _s3_options(self) -> dict[str, Any]:
        client = {"endpoint_url": self.blobs_s3_endpoint, "region_name": self.blobs_s3_region}
        options: dict[str, Any] = {
            "client_kwargs": {name: value for name, value in client.items() if value},
            "config_kwargs": {"connect_timeout": CONNECT_TIMEOUT, "read_timeout": READ_TIMEOUT},
            "use_listings_cache": False,
        }
        if self.blobs_s3_key_id:
            options |= {"key": self.blobs_s3_key_id, "secret": self._secret()}
        return options

    def _secret(self) -> str:
        try:
            return Path(self.blobs_s3_secret_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StartupError(f"HEADRACE_BLOBS_S3_SECRET_FILE: {error}") from error
