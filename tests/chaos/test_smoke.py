"""A short run with one fault of each kind that never causes a failure, in every test run.

The full matrix is `make chaos`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.configurations import SMOKE, SMOKE_SECONDS
from tests.chaos.experiment import experiment
from tests.chaos.history import End
from tests.chaos.installed import skip_unless_installed
from tests.chaos.report import row_of

pytestmark = [pytest.mark.e2e, pytest.mark.store, pytest.mark.rabbitmq, pytest.mark.timeout(600)]


async def test_one_fault_of_each_kind_is_survived(tmp_path: Path) -> None:
    skip_unless_installed()
    outcome = await experiment(SMOKE, seed=1, seconds=SMOKE_SECONDS, say=print, keep=tmp_path)
    print(row_of(outcome))
    assert not outcome.violations, "\n".join(map(str, outcome.violations))
    assert {each.nemesis for each in outcome.run.evidence.struck} == {plan.nemesis for plan in SMOKE.plans}
    assert sum(request.end is End.FINISHED for request in outcome.run.requests) >= 10
