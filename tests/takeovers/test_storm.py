"""Background responses go on through kills of gateways and workers: a small storm, the full one in `make chaos`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.installed import skip_unless_installed
from tests.takeovers.storm import Plan, is_blocked, storm

pytestmark = [pytest.mark.e2e, pytest.mark.store, pytest.mark.rabbitmq, pytest.mark.timeout(600)]

SMALL = Plan(responses=20, kills=2, every=2.0, tokens=(20, 60))


@pytest.mark.parametrize("moderated", [False, True])
async def test_each_stream_is_contiguous_and_billed_once(tmp_path: Path, moderated: bool) -> None:
    skip_unless_installed()
    plan = replace(SMALL, moderated=moderated)
    outcome = await storm(plan, print, tmp_path)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert sum(outcome.killed.values()) == 2
    assert outcome.takeovers > 0
    assert any(is_blocked(each, plan) for each in outcome.followers) == moderated
