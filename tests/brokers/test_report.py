"""The published table of RabbitMQ versions equals the file of results."""

from __future__ import annotations

from tests.brokers.report import TABLE
from tests.chaos.published_table import PAGE


def test_the_page_shows_the_results() -> None:
    assert TABLE.section(TABLE.read()) in PAGE.read_text()


def test_published_versions_passed() -> None:
    assert {row.rabbitmq.rpartition(".")[0] for row in TABLE.read()} >= {"3.10", "4.0", "4.3"}
    assert all(row.passed > 90 and row.failed == 0 for row in TABLE.read())
