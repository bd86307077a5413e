"""Launchers in homes of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.readiness import free_port
from tests.e2e.launched import Launched, borrow_installation, missing


@pytest.fixture(scope="module")
def e2e_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = missing()
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    home = tmp_path_factory.mktemp("home")
    borrow_installation(home)
    return home


@pytest.fixture(scope="module")
def serving(e2e_home: Path) -> Iterator[Launched]:
    """`headrace serve`, ready."""
    launched = Launched(["serve"], e2e_home, free_port())
    try:
        launched.until_ready()
        yield launched
    finally:
        launched.end()
