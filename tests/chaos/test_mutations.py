"""The checker finds each of five bugs that are injected into the running platform. Part of `make chaos`.

`test_checker.py` has histories with the same bugs, without processes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.configurations import MUTATED, MUTATED_SECONDS
from tests.chaos.experiment import experiment
from tests.chaos.installed import marks_of_a_run, skip_unless_installed
from tests.chaos.mutations import MUTATIONS

pytestmark = marks_of_a_run("CHAOS_MUTATIONS", "some minutes: part of `make chaos`")


async def test_without_a_bug_nothing_is_found(tmp_path: Path) -> None:
    """What finds the bugs is not what there is without them."""
    skip_unless_installed()
    outcome = await experiment(MUTATED, seed=1, seconds=MUTATED_SECONDS, say=print, keep=tmp_path)
    assert not outcome.violations, "\n".join(map(str, outcome.violations))


@pytest.mark.parametrize("name", MUTATIONS)
async def test_a_bug_is_found(name: str, tmp_path: Path) -> None:
    skip_unless_installed()
    outcome = await experiment(MUTATED, seed=1, seconds=MUTATED_SECONDS, say=print, keep=tmp_path, mutation=name)
    found = {violation.invariant for violation in outcome.violations}
    assert found & MUTATIONS[name].found_as, f"found only {found}"
