"""Results by RabbitMQ version: one row each, in `docs/brokers.json` and in a table of `docs/reliability.md`."""

from __future__ import annotations

import msgspec

from tests.chaos.published_table import PublishedTable


class Row(msgspec.Struct, kw_only=True):
    """Result of the tests that need RabbitMQ, on one version of it."""

    rabbitmq: str
    erlang: str
    commit: str
    passed: int
    failed: int

    @property
    def minor_version(self) -> tuple[int, ...]:
        """Major and minor version of RabbitMQ."""
        return tuple(int(part) for part in self.rabbitmq.split(".")[:2])


TABLE = PublishedTable(
    Row,
    "brokers.json",
    "brokers",
    {
        "RabbitMQ": "{0.rabbitmq}",
        "Erlang": "{0.erlang}",
        "tests passed": "{0.passed}",
        "failed": "{0.failed}",
        "commit": "{0.commit}",
    },
    key=lambda row: row.minor_version,
)
