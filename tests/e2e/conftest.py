"""Launcher processes with their own home directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.launcher.readiness import free_port
from tests.e2e.launcher_process import Launched, new_home


@pytest.fixture(scope="module")
def e2e_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_home(tmp_path_factory)


@pytest.fixture(scope="module")
def serving(e2e_home: Path) -> Iterator[Launched]:
    """A ready `headrace serve`."""
    launched = Launched(["serve"], e2e_home, free_port())
    try:
        launched.until_ready()
        yield launched
    finally:
        launched.end()
