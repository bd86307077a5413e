"""The published table of RabbitMQ versions equals the file of results."""

from __future__ import annotations

from tests.brokers.report import BEGIN, FINISH, read, table
from tests.chaos.report import PAGE


def test_the_page_shows_the_results() -> None:
    assert f"{BEGIN}\n{table(read())}{FINISH}" in PAGE.read_text()
