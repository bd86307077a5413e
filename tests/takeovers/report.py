"""Figures of storms, one row for each run: `docs/background-takeovers.json`, and the table in `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from benchmarks.results import own_versions, this_machine
from infra.install.step import ROOT
from tests.chaos.report import markdown_table, rabbitmq_version, replace_table
from tests.takeovers.storm import Outcome

RESULTS = ROOT / "docs" / "background-takeovers.json"
BEGIN, FINISH = "<!-- takeovers: begin -->", "<!-- takeovers: end -->"


class Row(msgspec.Struct, kw_only=True):
    """One storm in figures."""

    workers: str
    """Engine of the workers: `counting` or `real model`."""
    run: int
    """Number of the run with this engine."""
    responses: int
    seconds: int
    """From the beginning to the last kill."""
    every: float
    """Seconds between two kills, at least."""
    gateways_killed: int
    workers_killed: int
    takeovers: int
    connections: int
    """Connections of all clients to read events."""
    events: int
    broken: int
    """Faults of streams: numbers that are not contiguous, other text than at the end, no end, a failed end."""
    misbilled: int
    """Faults of bills and books."""
    longest_pause: float
    """Longest time in seconds between two pieces of a text."""
    date: str
    commit: str
    rabbitmq: str
    python: str
    cpu: str
    cores: int


def row_of(outcome: Outcome, run: int) -> Row:
    """Return the figures of a storm that was judged."""
    plan, followers = outcome.plan, outcome.followers
    versions, machine = own_versions(), this_machine()
    return Row(
        workers="real model" if plan.real else "counting",
        run=run,
        responses=plan.responses,
        seconds=round(outcome.seconds),
        every=plan.every,
        gateways_killed=sum(times for name, times in outcome.killed.items() if name.startswith("gateway")),
        workers_killed=sum(times for name, times in outcome.killed.items() if name.startswith("worker")),
        takeovers=outcome.takeovers,
        connections=sum(each.connections for each in followers),
        events=sum(len(each.numbers) for each in followers),
        broken=len(outcome.broken),
        misbilled=len(outcome.misbilled),
        longest_pause=round(max(each.longest_pause for each in followers), 1),
        date=datetime.now(UTC).date().isoformat(),
        commit=versions["commit"],
        rabbitmq=rabbitmq_version(),
        python=versions["python"],
        cpu=machine.cpu,
        cores=machine.cores,
    )


def read() -> list[Row]:
    """Return the published rows."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[Row]) if RESULTS.exists() else []


def publish(rows: Sequence[Row]) -> None:
    """Put rows in the place of those of the same engines and runs, in both files."""
    by_name = {(row.workers, row.run): row for row in [*read(), *rows]}
    ordered = [by_name[name] for name in sorted(by_name)]
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    replace_table(BEGIN, FINISH, table(ordered))


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    names = ["workers", "responses", "s", "gateways killed", "workers killed", "takeovers", "connections", "events"]
    names += ["broken", "mis-billed", "longest pause", "RabbitMQ", "date", "commit"]
    return markdown_table(
        names,
        [
            [
                row.workers,
                row.responses,
                row.seconds,
                row.gateways_killed,
                row.workers_killed,
                row.takeovers,
                row.connections,
                f"{row.events:,}",
                row.broken,
                row.misbilled,
                f"{row.longest_pause:.1f} s",
                row.rabbitmq,
                row.date,
                row.commit,
            ]
            for row in rows
        ],
    )
