"""Each process of an assistant's answer is killed in each phase of it: once here, 20 times by `make kill-points`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.accounts import embedded_store
from tests.chaos.installed import skip_unless_installed
from tests.chaos.nemeses import BROKER
from tests.kills.run import killed

pytestmark = [pytest.mark.e2e, pytest.mark.store, pytest.mark.rabbitmq, pytest.mark.timeout(900)]


async def test_answers_are_whole_and_billed_once(tmp_path: Path) -> None:
    skip_unless_installed()
    _, wrong = await killed(1, of_each=1, say=print, keep=tmp_path)
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(not os.environ.get("HEADRACE_TEST_KILLS"), reason="`make kill-points` kills broker and store too")
async def test_answers_go_on_after_the_broker_and_the_store_are_killed(tmp_path: Path) -> None:
    skip_unless_installed()
    interrupted = [BROKER, embedded_store.NAME]
    _, wrong = await killed(0, of_each=1, say=print, interrupted=interrupted * 2, keep=tmp_path)
    assert not wrong, "\n".join(wrong)
