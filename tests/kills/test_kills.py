"""Each process of an assistant's answer is killed in each phase of it: once here, 20 times by `make kill-points`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.installed import skip_unless_installed
from tests.kills.run import killed

pytestmark = [pytest.mark.e2e, pytest.mark.store, pytest.mark.rabbitmq, pytest.mark.timeout(900)]


async def test_answers_are_whole_and_billed_once(tmp_path: Path) -> None:
    skip_unless_installed()
    _, wrong = await killed(1, of_each=1, say=print, keep=tmp_path)
    assert not wrong, "\n".join(wrong)
