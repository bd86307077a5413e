"""Figures of kills by victim and phase: `docs/assistant-kills.json`, and the table in `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import msgspec

from benchmarks.results import own_versions, this_machine
from infra.install.step import ROOT
from tests.chaos.report import markdown_table, rabbitmq_version, replace_table
from tests.kills.run import VICTIMS, Kills

RESULTS = ROOT / "docs" / "assistant-kills.json"
BEGIN, FINISH = "<!-- kills: begin -->", "<!-- kills: end -->"


class Row(msgspec.Struct, kw_only=True):
    """Answers that were held in one phase while processes of one kind were killed."""

    victim: str
    phase: str
    streamed: int
    not_streamed: int
    faulty: int
    """Answers that were not whole, had another text or step, or another bill than an undisturbed one."""
    differences: int
    """All that was wrong in the run of this row: in answers, books, images and processes."""
    date: str
    commit: str
    rabbitmq: str
    python: str
    cpu: str
    cores: int


def rows_of(kills: Kills, victims: Collection[str], wrong: Sequence[str]) -> list[Row]:
    """Return the figures of a run that was judged."""
    return [
        _row(kills, victim, phase, len(wrong)) for victim in VICTIMS if victim in victims for phase in VICTIMS[victim]
    ]


def _row(kills: Kills, victim: str, phase: str, differences: int) -> Row:
    answers = [each for round_ in kills.rounds if round_.victim == victim for each in round_.held_in(phase)]
    streamed = sum(each.streamed for each in answers)
    versions, machine = own_versions(), this_machine()
    return Row(
        victim=victim,
        phase=phase,
        streamed=streamed,
        not_streamed=len(answers) - streamed,
        faulty=kills.faulty[victim, phase],
        differences=differences,
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
    """Put rows in the place of those of the same victims and phases, in both files."""
    by_name = {(row.victim, row.phase): row for row in [*read(), *rows]}
    names = [(victim, phase) for victim, phases in VICTIMS.items() for phase in phases]
    ordered = [by_name[name] for name in names if name in by_name]
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    replace_table(BEGIN, FINISH, table(ordered))


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    names = ["killed", "phase", "streamed", "not streamed", "faulty", "differences", "RabbitMQ", "date", "commit"]
    return markdown_table(
        names,
        [
            [
                row.victim,
                row.phase,
                row.streamed,
                row.not_streamed,
                row.faulty,
                row.differences,
                row.rabbitmq,
                row.date,
                row.commit,
            ]
            for row in rows
        ],
    )
