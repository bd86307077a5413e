"""The embedded store for the whole test session, and a fresh database for each test that asks for one.

Without the program these tests are skipped on a laptop and fail where `CI` is set.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.accounts.embedded_store import PROGRAM
from infra.launcher.readiness import free_port
from tests.child_process import StoreProcess, start_or_skip

_IN_CHECKOUT = Path(__file__).resolve().parents[1] / ".headrace" / PROGRAM


def make_store(home: Path) -> StoreProcess:
    """A store that is not started yet."""
    program = Path(os.environ.get("HEADRACE_TEST_STORE", _IN_CHECKOUT))
    return StoreProcess(home, free_port(), program=program)


@pytest.fixture(scope="session")
def mongodb_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = make_store(tmp_path_factory.mktemp("store"))
    start_or_skip(store)
    yield store.url
    store.stop()


@pytest.fixture
def database_url(mongodb_url: str) -> str:
    """The shared store, with a database of this test's own."""
    return mongodb_url.replace("/headrace?", f"/test_{uuid.uuid4().hex[:12]}?")


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
