"""Imports go on through kills of gateways, workers and the store: three kills here, twenty in `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.installed import skip_unless_installed
from tests.import_kills.storm import Plan, storm

pytestmark = [pytest.mark.e2e, pytest.mark.store, pytest.mark.rabbitmq, pytest.mark.model, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("embedding_folder")
async def test_imports_are_complete_and_billed_once(tmp_path: Path) -> None:
    skip_unless_installed()
    outcome = await storm(Plan(kills=3, files=2, pause=0.5), print, tmp_path)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert sum(outcome.killed.values()) == 3
