"""The published table equals the file of figures, and nothing in it was wrong."""

from __future__ import annotations

from tests.chaos.report import PAGE
from tests.kills.report import BEGIN, FINISH, read, table
from tests.kills.run import VICTIMS


def test_the_page_shows_the_figures() -> None:
    assert f"{BEGIN}\n{table(read())}{FINISH}" in PAGE.read_text()


def test_each_process_was_killed_in_each_of_its_phases() -> None:
    rows = read()
    names = [(victim, phase) for victim, phases in VICTIMS.items() for phase in phases]
    assert [(row.victim, row.phase) for row in rows] == names
    assert all(row.streamed + row.not_streamed >= 10 for row in rows)
    assert all(row.faulty == row.differences == 0 for row in rows)
