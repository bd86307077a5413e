"""The published table equals the file of figures, and nothing in it was wrong."""

from __future__ import annotations

from tests.chaos.published_table import PAGE
from tests.takeovers.report import TABLE


def test_the_page_shows_the_figures() -> None:
    assert TABLE.section(TABLE.read()) in PAGE.read_text()


def test_two_full_storms_and_one_of_the_real_model_had_no_fault() -> None:
    rows = TABLE.read()
    assert [(row.workers, row.run) for row in rows] == [("counting", 1), ("counting", 2), ("real model", 1)]
    counting, real = rows[:2], rows[2:]
    assert all(row.responses == 200 and row.takeovers > 100 for row in counting)
    assert all(row.gateways_killed + row.workers_killed == 20 for row in counting)
    assert all(row.takeovers > 0 for row in real)
    assert all(row.broken == row.misbilled == 0 for row in rows)
