"""Figures of kills by victim and phase: `docs/assistant-kills.json`, and the table in `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from benchmarks.results import own_versions, this_machine
from infra.install.step import ROOT
from tests.chaos.report import markdown_table, rabbitmq_version, replace_table
from tests.kills.run import VICTIMS, Kills

RESULTS = ROOT / "docs" / "assistant-kills.json"
BEGIN, FINISH = "<!-- kills: begin -->", "<!-- kills: end -->"


class Row(msgspec.Struct, kw_only=True):
    """Answers whose process of one kind was killed in one phase."""

    victim: str
    phase: str
    streamed: int
    not_streamed: int
    faulty: int
    """Answers that were not whole, had another text or step, or another bill than an undisturbed one."""


class Results(msgspec.Struct, kw_only=True):
    """One run."""

    rows: list[Row]
    wrong: int
    """All that was wrong, in answers, books, images and processes."""
    requests: int
    date: str
    commit: str
    rabbitmq: str
    python: str
    cpu: str
    cores: int


def results_of(kills: Kills, wrong: Sequence[str]) -> Results:
    """Return the figures of a run that was judged."""
    versions, machine = own_versions(), this_machine()
    return Results(
        rows=[_row(kills, victim, phase) for victim, phases in VICTIMS.items() for phase in phases],
        wrong=len(wrong),
        requests=len(kills.asked),
        date=datetime.now(UTC).date().isoformat(),
        commit=versions["commit"],
        rabbitmq=rabbitmq_version(),
        python=versions["python"],
        cpu=machine.cpu,
        cores=machine.cores,
    )


def _row(kills: Kills, victim: str, phase: str) -> Row:
    answers = [each for round_ in kills.rounds if round_.victim == victim for each in round_.held_in(phase)]
    streamed = sum(each.streamed for each in answers)
    faulty = kills.faulty[victim, phase]
    return Row(victim=victim, phase=phase, streamed=streamed, not_streamed=len(answers) - streamed, faulty=faulty)


def read() -> Results:
    """Return the published figures."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results)


def publish(results: Results) -> None:
    """Write the figures and the table."""
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    replace_table(BEGIN, FINISH, table(results))


def table(results: Results) -> str:
    """Return the rows as a Markdown table, and a line about the run."""
    names = ["killed", "phase", "streamed answers", "other answers", "faulty"]
    rows = [[row.victim, row.phase, row.streamed, row.not_streamed, row.faulty] for row in results.rows]
    run = (
        f"{results.date}, commit {results.commit}, RabbitMQ {results.rabbitmq}, Python {results.python}, "
        f"{results.cores} cores: {results.requests} requests, {results.wrong} differences."
    )
    return f"{markdown_table(names, rows)}\n{run}\n"
