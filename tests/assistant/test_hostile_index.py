"""Every test in the index exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.assistant.hostile_index import INDEX

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("row", INDEX)
def test_the_named_tests_exist(row: str) -> None:
    for name in INDEX[row]:
        file, _, test = name.partition("::")
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), name
