"""The published table equals the file of figures, and nothing in it was wrong."""

from __future__ import annotations

from tests.chaos.published_table import PAGE
from tests.kills.report import TABLE
from tests.kills.run import VICTIMS


def test_the_page_shows_the_figures() -> None:
    assert TABLE.section(TABLE.read()) in PAGE.read_text()


def test_each_process_was_killed_in_each_of_its_phases() -> None:
    rows = TABLE.read()
    names = [(victim, phase) for victim, phases in VICTIMS.items() for phase in phases]
    assert [(row.victim, row.phase) for row in rows] == names
    assert all(row.streamed + row.not_streamed >= 10 for row in rows)
    assert all(row.faulty == row.differences == 0 for row in rows)
