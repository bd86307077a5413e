"""Every class of hostile input to the chat API has a test, and every named test exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chat_ui.hostile_index import INDEX

ROOT = Path(__file__).parents[2]
ROWS = {77, 78, 79, 80, 82, 83, 84, 85, 87, 119, 120, 123, 124, 125, 126, 127, 145}


def test_every_row_is_tested() -> None:
    assert {f"H{row}" for row in ROWS} <= INDEX.keys()


@pytest.mark.parametrize("row", INDEX)
def test_the_named_tests_exist(row: str) -> None:
    for name in INDEX[row]:
        file, _, test = name.partition("::")
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), name
