"""A store for the whole test session, and a fresh database for each test that asks for one.

The store is the MongoDB of `TEST_MONGODB_URL` (`make test-mongodb`), else an embedded store. Without its program these
tests are skipped on a laptop and fail where `CI` is set.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest
from pymongo import MongoClient

from infra.accounts.embedded_store import PROGRAM
from infra.launcher.readiness import free_port
from tests.child_process import StoreProcess, start_or_skip

_IN_CHECKOUT = Path(__file__).resolve().parents[1] / ".headrace" / PROGRAM
_SHARED_MEMORY = Path("/dev/shm")
_STORE_BYTES = 4 * 2**30
"""Free bytes that the store of a whole session may need."""


def make_store(home: Path) -> StoreProcess:
    """A store that is not started yet."""
    program = Path(os.environ.get("HEADRACE_TEST_STORE", _IN_CHECKOUT))
    return StoreProcess(home, free_port(), program=program)


@pytest.fixture(scope="session")
def mongodb_url() -> Iterator[str]:
    if (url := os.environ.get("TEST_MONGODB_URL")) is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="store-", dir=_folder_in_memory()) as home:
        store = make_store(Path(home))
        start_or_skip(store)
        yield store.url
        store.stop()


def _folder_in_memory() -> str | None:
    """Return a folder whose writes need no disk, since a slow disk times operations out; None where there is none."""
    if _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free >= _STORE_BYTES:
        return str(_SHARED_MEMORY)
    return None


@pytest.fixture
def database_url(mongodb_url: str) -> Iterator[str]:
    """The shared store, with a database of this test's own, which is dropped after the test."""
    url, name = urlsplit(mongodb_url), f"test_{uuid.uuid4().hex[:12]}"
    query = dict(parse_qsl(url.query))
    if url.username is not None:
        query.setdefault("authSource", url.path.removeprefix("/") or "admin")
    yield urlunsplit(url._replace(path=f"/{name}", query=urlencode(query)))
    with MongoClient(mongodb_url) as client:
        client.drop_database(name)


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[Callable[[], StoreProcess]]:
    """Makes a store that the test may kill and start again."""
    made: list[StoreProcess] = []

    def make() -> StoreProcess:
        store = make_store(tmp_path / f"home-{len(made)}")
        start_or_skip(store)
        made.append(store)
        return store

    yield make
    for store in made:
        store.stop()
