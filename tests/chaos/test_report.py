"""The published table equals the file of figures."""

from __future__ import annotations

from tests.chaos.configurations import CONFIGURATIONS
from tests.chaos.published_table import PAGE
from tests.chaos.report import TABLE


def test_the_page_shows_the_figures() -> None:
    assert TABLE.section(TABLE.read()) in PAGE.read_text()


def test_rows_are_of_configurations_in_their_order() -> None:
    names = [row.configuration for row in TABLE.read()]
    assert names == [each.name for each in CONFIGURATIONS if each.name in names]
