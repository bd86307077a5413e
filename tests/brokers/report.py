"""Results by RabbitMQ version: one row each, in `docs/brokers.json` and in a table of `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infra.install.step import ROOT
from tests.chaos.report import markdown_table, replace_table


class Row(msgspec.Struct, kw_only=True):
    """Result of the tests that need RabbitMQ, on one version of it."""

    rabbitmq: str
    erlang: str
    commit: str
    passed: int
    failed: int


RESULTS = ROOT / "docs" / "brokers.json"
BEGIN, FINISH = "<!-- brokers: begin -->", "<!-- brokers: end -->"


def read() -> list[Row]:
    """Return the published rows, oldest version first."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[Row]) if RESULTS.exists() else []


def publish(rows: Sequence[Row]) -> None:
    """Replace the rows of the same minor versions, in both files."""
    by_version = {_numbers(row.rabbitmq)[:2]: row for row in [*read(), *rows]}
    ordered = sorted(by_version.values(), key=lambda row: _numbers(row.rabbitmq))
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    replace_table(BEGIN, FINISH, table(ordered))


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    names = ["RabbitMQ", "Erlang", "tests passed", "failed", "commit"]
    return markdown_table(names, [[row.rabbitmq, row.erlang, row.passed, row.failed, row.commit] for row in rows])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
