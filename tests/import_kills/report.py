"""Figures of imports under kills, one row for each run: `docs/import-kills.json`; a table in `docs/reliability.md`."""

from __future__ import annotations

from infra.accounts import embedded_store
from tests.chaos.published_table import MeasuredRow, PublishedTable, circumstances
from tests.import_kills.storm import Outcome


class Row(MeasuredRow, kw_only=True):
    """One run in figures."""

    seed: int
    seconds: int
    """From the beginning to the last kill."""
    gateways_killed: int
    workers_killed: int
    store_killed: int
    files: int
    blocks: int
    """Blocks of passages, each embedded by one request."""
    resumed: int
    broken: int
    """Faults of files, passages and searches."""
    misbilled: int
    """Faults of bills and books."""


TABLE = PublishedTable(
    Row,
    "import-kills.json",
    "imports",
    {
        "seed": "{0.seed}",
        "s": "{0.seconds}",
        "gateways killed": "{0.gateways_killed}",
        "workers killed": "{0.workers_killed}",
        "store killed": "{0.store_killed}",
        "files": "{0.files}",
        "blocks": "{0.blocks}",
        "resumed": "{0.resumed}",
        "broken": "{0.broken}",
        "mis-billed": "{0.misbilled}",
        "RabbitMQ": "{0.rabbitmq}",
        "date": "{0.date}",
        "commit": "{0.commit}",
    },
    key=lambda row: row.seed,
)


def row_of(outcome: Outcome) -> Row:
    """Return the figures of a run that was judged."""
    return Row(
        seed=outcome.plan.seed,
        seconds=round(outcome.seconds),
        gateways_killed=sum(times for name, times in outcome.killed.items() if name.startswith("gateway")),
        workers_killed=sum(times for name, times in outcome.killed.items() if name.startswith("worker")),
        store_killed=outcome.killed[embedded_store.NAME],
        files=len(outcome.files),
        blocks=outcome.blocks,
        resumed=outcome.resumed,
        broken=len(outcome.broken),
        misbilled=len(outcome.misbilled),
        **circumstances(),
    )
