"""Fixtures of all tests, their order, and a second try for time limits. Triton's kernels run in its interpreter."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

# Read when the kernels are defined, so before any test module is imported. On a GPU: tests/gpu.
os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile("patient", deadline=None)  # how long an example takes is not what it is about
settings.load_profile("patient")

pytest_plugins = ["tests.model_fixtures", "tests.rabbitmq_fixtures", "tests.store_fixtures"]

_HERE = Path(__file__).parent
_WITH_PROCESSES = {_HERE / name for name in ("chaos", "contract", "e2e", "integration")}
"""Where tests start processes of their own and wait for them."""


_ONE_SERVER = "tests/e2e/clients/"
"""The files in there share one server, so they go to one process."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests first, so that no process is alone with them at the end.

    A wait that was too short on a busy machine is tried once more, and reported; a wrong answer never is.
    """
    items.sort(key=lambda item: _WITH_PROCESSES.isdisjoint(item.path.parents))
    for item in items:
        if not _WITH_PROCESSES.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=["TimeoutError", "TimeoutExpired"]))


@pytest.fixture
def restored_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the configuration of logging, and the hooks for exceptions, after the test."""
    for module in (sys, threading):
        monkeypatch.setattr(module, "excepthook", module.excepthook)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


class _ByServer(LoadFileScheduling):
    """A file's tests in one process, and those of all files that share a server."""

    def _split_scope(self, nodeid: str) -> str:
        return _ONE_SERVER if nodeid.startswith(_ONE_SERVER) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """`--dist loadfile`, but for files that share a server."""
    return _ByServer(config, log) if config.getoption("dist") == "loadfile" else None
