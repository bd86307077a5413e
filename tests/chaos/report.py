"""Figures of runs: one row each, as JSON (`docs/reliability.json`) and as the table in `docs/reliability.md`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from infra.install.step import ROOT
from tests.chaos.checker import Run, longest_pause, look_at_text
from tests.chaos.configurations import CONFIGURATIONS
from tests.chaos.experiment import Outcome
from tests.chaos.history import End

RESULTS = ROOT / "docs" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, FINISH = "<!-- chaos: begin -->", "<!-- chaos: end -->"


class Row(msgspec.Struct, kw_only=True):
    """One run in figures."""

    configuration: str
    seed: int
    seconds: int
    faults: dict[str, int]
    requests: int
    tokens: int
    """That reached clients."""
    refused: int
    """Answered 503 or 429 while something was away."""
    cut_off: int
    """Connections that went with the gateway that held them."""
    left: int
    """Clients that left."""
    duplicates: int
    gaps: int
    lost: int
    misbilled: int
    other: int
    """Violations of any other kind."""
    longest_pause: float
    """Seconds."""


def row_of(outcome: Outcome) -> Row:
    """A run in figures."""
    run = outcome.run
    ends = Counter(request.end for request in run.requests)
    looked = [look_at_text(r.text(choice), whole=False) for r in run.requests for choice in range(r.choices)]
    kinds = Counter(violation.invariant for violation in outcome.violations)
    lost, misbilled = kinds["lost"] + kinds["I1"], kinds["I3"] + kinds["I4"]
    return Row(
        configuration=outcome.configuration.name,
        seed=outcome.seed,
        seconds=round(outcome.seconds),
        faults=dict(sorted(Counter(struck.nemesis for struck in run.evidence.struck).items())) | _poison(run),
        requests=len(run.requests),
        tokens=sum(each.numbers for each in looked),
        refused=ends[End.REFUSED],
        cut_off=ends[End.BROKEN],
        left=ends[End.LEFT],
        duplicates=sum(each.duplicates for each in looked),
        gaps=sum(each.gaps for each in looked),
        lost=lost,
        misbilled=misbilled,
        other=len(outcome.violations) - lost - misbilled - kinds["I2"],
        longest_pause=round(max(map(longest_pause, run.requests), default=0.0), 1),
    )


def _poison(run: Run) -> dict[str, int]:
    poison = sum(not request.innocent for request in run.requests)
    return {"poison": poison} if poison else {}


def read() -> list[Row]:
    """The published rows, in the order of the configurations."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[Row]) if RESULTS.exists() else []


def publish(rows: Sequence[Row]) -> None:
    """Put rows in the place of those of the same configurations, in both files."""
    by_name = {row.configuration: row for row in [*read(), *rows]}
    ordered = [by_name[each.name] for each in CONFIGURATIONS if each.name in by_name]
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(ordered)}{FINISH}{rest.partition(FINISH)[2]}")


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    names = ["configuration", "s", "faults", "requests", "tokens", "refused", "cut off", "left"]
    names += ["duplicates", "gaps", "lost", "mis-billed", "other", "longest pause"]
    lines = [_line(names), _line(["---"] * len(names))]
    lines += [_line(_cells(row)) for row in rows]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[Any]:
    faults = sum(row.faults.values())
    counts = [row.requests, f"{row.tokens:,}", row.refused, row.cut_off, row.left]
    wrong = [row.duplicates, row.gaps, row.lost, row.misbilled, row.other]
    return [row.configuration, row.seconds, faults, *counts, *wrong, f"{row.longest_pause:.1f} s"]


def _line(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
