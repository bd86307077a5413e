"""Figures of kills by victim and phase: `docs/assistant-kills.json`, and the table in `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tests.chaos.published_table import MeasuredRow, PublishedTable, circumstances
from tests.kills.run import VICTIMS, Kills

NAMES = [(victim, phase) for victim, phases in VICTIMS.items() for phase in phases]


class Row(MeasuredRow, kw_only=True):
    """Answers that were held in one phase while processes of one kind were killed."""

    victim: str
    phase: str
    streamed: int
    not_streamed: int
    faulty: int
    """Answers that were not whole, had another text or step, or another bill than an undisturbed one."""
    differences: int
    """All that was wrong in the run of this row: in answers, books, images and processes."""


TABLE = PublishedTable(
    Row,
    "assistant-kills.json",
    "kills",
    {
        "killed": "{0.victim}",
        "phase": "{0.phase}",
        "streamed": "{0.streamed}",
        "not streamed": "{0.not_streamed}",
        "faulty": "{0.faulty}",
        "differences": "{0.differences}",
        "RabbitMQ": "{0.rabbitmq}",
        "date": "{0.date}",
        "commit": "{0.commit}",
    },
    key=lambda row: NAMES.index((row.victim, row.phase)),
)


def rows_of(kills: Kills, victims: Collection[str], wrong: Sequence[str]) -> list[Row]:
    """Return the figures of a run that was judged."""
    return [_row(kills, victim, phase, len(wrong)) for victim, phase in NAMES if victim in victims]


def _row(kills: Kills, victim: str, phase: str, differences: int) -> Row:
    answers = [each for round_ in kills.rounds if round_.victim == victim for each in round_.held_in(phase)]
    streamed = sum(each.streamed for each in answers)
    return Row(
        victim=victim,
        phase=phase,
        streamed=streamed,
        not_streamed=len(answers) - streamed,
        faulty=kills.faulty[victim, phase],
        differences=differences,
        **circumstances(),
    )
