"""Every class of hostile input has a test, and every test in the index exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.gateway.hostile_index import INDEX, TABLE
from tests.gateway.test_refusals import CASES

ROOT = Path(__file__).parents[2]
NO_SUCH_ROW = {6, 10, 14, 16, 18, 20, 24, 35, 45, 47, 54, 58, 62, 67, 89}


def test_every_row_is_tested() -> None:
    rows = {*range(1, 77), *range(88, 96), *range(114, 119), 121, 122, *range(140, 145), *range(146, 151)} - NO_SUCH_ROW
    assert {f"H{row}" for row in rows} == INDEX.keys()


@pytest.mark.parametrize("row", INDEX)
def test_the_named_tests_exist(row: str) -> None:
    for name in INDEX[row]:
        file, _, test = name.partition("::")
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), name


def test_the_table_and_the_index_name_the_same_rows() -> None:
    assert {row for row, tests in INDEX.items() if TABLE in tests} == CASES.keys()
    assert all(len(cases) > 1 for row, cases in CASES.items() if row != "H17")
