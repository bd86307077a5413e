"""Figures of storms, one row for each run: `docs/background-takeovers.json`, and the table in `docs/reliability.md`."""

from __future__ import annotations

from tests.chaos.published_table import MeasuredRow, PublishedTable, circumstances
from tests.takeovers.storm import Outcome


class Row(MeasuredRow, kw_only=True):
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


TABLE = PublishedTable(
    Row,
    "background-takeovers.json",
    "takeovers",
    {
        "workers": "{0.workers}",
        "responses": "{0.responses}",
        "s": "{0.seconds}",
        "gateways killed": "{0.gateways_killed}",
        "workers killed": "{0.workers_killed}",
        "takeovers": "{0.takeovers}",
        "connections": "{0.connections}",
        "events": "{0.events:,}",
        "broken": "{0.broken}",
        "mis-billed": "{0.misbilled}",
        "longest pause": "{0.longest_pause:.1f} s",
        "RabbitMQ": "{0.rabbitmq}",
        "date": "{0.date}",
        "commit": "{0.commit}",
    },
    key=lambda row: (row.workers, row.run),
)


def row_of(outcome: Outcome, run: int) -> Row:
    """Return the figures of a storm that was judged."""
    plan, followers = outcome.plan, outcome.followers
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
        **circumstances(),
    )
