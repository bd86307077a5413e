"""The kernels in every instruction set that this processor has."""

from __future__ import annotations

import pytest

from inference_worker.engine.native.build import INSTRUCTION_SETS


@pytest.fixture(scope="module", params=list(INSTRUCTION_SETS))
def instructions(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if missing := INSTRUCTION_SETS[name].missing():
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    return name
