"""Every class of hostile input to the parsers of documents has a test, and every named test exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents.hostile_index import INDEX

ROOT = Path(__file__).parents[2]


def test_every_row_is_tested() -> None:
    table = (ROOT / "docs/design/hostile-input.md").read_text()
    section = table.partition('<a id="documents"></a>')[2].partition("\n## ")[2].partition("\n<a id=")[0]
    assert set(re.findall(r"^\| <a id=\"(H\d+)\"", section, re.MULTILINE)) == INDEX.keys()


@pytest.mark.parametrize("row", INDEX)
def test_the_named_tests_exist(row: str) -> None:
    for name in INDEX[row]:
        file, _, test = name.partition("::")
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), name
