"""The published table of RabbitMQ versions equals the file of results."""

from __future__ import annotations

from tests.brokers.report import BEGIN, FINISH, read, table
from tests.chaos.report import PAGE


def test_the_page_shows_the_results() -> None:
    assert f"{BEGIN}\n{table(read())}{FINISH}" in PAGE.read_text()


def test_published_versions_passed() -> None:
    assert {row.rabbitmq.rpartition(".")[0] for row in read()} >= {"3.10", "4.0", "4.3"}
    assert all(row.passed > 90 and row.failed == 0 for row in read())
