"""Blobs of each kind of file system: a folder, memory, and S3 at moto's server."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from auth_billing.store.connection import StoreConnection
from stored_objects.blobs.blobs import Blobs
from stored_objects.objects.quota import ByteCounts
from stored_objects.objects.records import ObjectOwner, ObjectStore
from stored_objects.services import blobs_of
from stored_objects.settings import BlobSettings
from stored_objects.store.byte_counts import MongoByteCounts
from stored_objects.store.indexes import create_indexes
from stored_objects.store.objects import MongoObjectStore
from tests.fakes.byte_counts import DictByteCounts
from tests.fakes.stored_objects import DictObjectStore

SECRET = "blobs-secret"
MAX_BYTES = 4 * 2**20
ADA, BOB = ObjectOwner("org-1", "user-ada"), ObjectOwner("org-1", "key-bob")
EVE = ObjectOwner("org-2", "user-ada")
START = 1_700_000_000.0


class Clock:
    """Unix seconds that a test sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@dataclass
class ObjectStores:
    documents: ObjectStore
    counts: ByteCounts


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[StoreConnection]:
    """An empty database with the indexes."""
    connected = StoreConnection(database_url, operation_ms=20_000)
    await create_indexes(connected)
    yield connected
    connected.close()


@pytest.fixture(params=["memory", pytest.param("store", marks=pytest.mark.store)])
def stores(request: pytest.FixtureRequest) -> ObjectStores:
    """Documents and counts in memory and in an empty database."""
    if request.param == "memory":
        return ObjectStores(DictObjectStore(), DictByteCounts())
    connected = request.getfixturevalue("connection")
    return ObjectStores(MongoObjectStore(connected), MongoByteCounts(connected))


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """An S3 server on a free port, whose objects are in memory."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_settings(s3_endpoint: str, tmp_path: Path) -> BlobSettings:
    """Settings of blobs below a prefix of a new bucket."""
    bucket, secret = f"blobs-{uuid.uuid4().hex[:12]}", tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    client = boto3.client(
        "s3", endpoint_url=s3_endpoint, region_name="us-east-1", aws_access_key_id="id", aws_secret_access_key=SECRET
    )
    client.create_bucket(Bucket=bucket)
    client.close()
    return BlobSettings(
        blobs_url=f"s3://{bucket}/headrace",
        blobs_s3_endpoint=s3_endpoint,
        blobs_s3_region="us-east-1",
        blobs_s3_key_id="id",
        blobs_s3_secret_file=str(secret),
        blob_max_mib=4,
    )


@pytest.fixture(params=["folder", "memory", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Blobs]:
    """Empty blobs of at most 4 MiB."""
    make: dict[str, Callable[[], Blobs]] = {
        "folder": lambda: Blobs(f"file://{tmp_path}/blobs", max_bytes=MAX_BYTES),
        "memory": lambda: Blobs(f"memory://{uuid.uuid4().hex}", max_bytes=MAX_BYTES),
        "s3": lambda: blobs_of(request.getfixturevalue("s3_settings"), tmp_path),
    }
    made = make[request.param]()
    yield made
    made.close()
