"""The page shows the figures of the file, and in the published runs no test failed."""

from __future__ import annotations

from tests.suites.__main__ import SUITES
from tests.suites.record import Verdict
from tests.suites.report import PAGE, markers, read, section


def test_the_page_shows_the_figures() -> None:
    page = PAGE.read_text()
    for result in read():
        begin, finish = markers(result.suite)
        assert f"{begin}\n{section(result)}{finish}" in page


def test_each_suite_was_run_and_nothing_failed() -> None:
    results = read()
    assert {each.suite for each in results} == SUITES.keys()
    assert sum(row.verdicts.get(Verdict.FAILED, 0) for each in results for row in each.files) == 0


def test_the_published_refusals_are_the_expected_ones() -> None:
    for result in read():
        expected = {(route, field) for route, fields in SUITES[result.suite].expected.items() for field in fields}
        assert {(row.route, row.field) for row in result.refusals} == expected
