"""Fixtures of all tests, and a second try for time limits. Triton's kernels run in its interpreter, on the CPU."""

import os
from pathlib import Path

import pytest

# Read when the kernels are defined, so before any test module is imported. On a GPU: tests/gpu.
os.environ.setdefault("TRITON_INTERPRET", "1")

pytest_plugins = ["tests.model_fixtures", "tests.rabbitmq_fixtures", "tests.store_fixtures"]

_HERE = Path(__file__).parent
_WITH_PROCESSES = {_HERE / name for name in ("contract", "e2e", "integration")}
"""Where tests start processes of their own and wait for them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A wait that was too short on a busy machine is tried once more, and reported; a wrong answer never is."""
    for item in items:
        if not _WITH_PROCESSES.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=["TimeoutError", "TimeoutExpired"]))
