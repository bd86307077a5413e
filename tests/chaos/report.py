"""Figures of runs: one row each, as JSON (`docs/reliability.json`) and as the table in `docs/reliability.md`."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from benchmarks.results import own_versions, this_machine
from infra.install.step import ROOT
from infra.rabbitmq.node import find_program
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
    rabbitmq: str
    commit: str
    python: str
    cpu: str
    """Model of the processor."""
    cores: int


def row_of(outcome: Outcome) -> Row:
    """A run in figures."""
    run = outcome.run
    versions, machine = own_versions(), this_machine()
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
        rabbitmq=rabbitmq_version(),
        commit=versions["commit"],
        python=versions["python"],
        cpu=machine.cpu,
        cores=machine.cores,
    )


def rabbitmq_version() -> str:
    """Return the version of RabbitMQ that nodes started by this process run, e.g. `3.10.8`."""
    command = [str(find_program("rabbitmqctl")), "version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


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
    replace_table(BEGIN, FINISH, table(ordered))


def replace_table(begin: str, finish: str, text: str) -> None:
    """Replace what is between the lines `begin` and `finish` of `docs/reliability.md`."""
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{before}{begin}\n{text}{finish}{rest.partition(finish)[2]}")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    names = ["configuration", "s", "faults", "requests", "tokens", "refused", "cut off", "left"]
    names += ["duplicates", "gaps", "lost", "mis-billed", "other", "longest pause", "RabbitMQ", "commit"]
    return markdown_table(names, [_cells(row) for row in rows])


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table with a header of `names`."""
    return "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in [names, ["---"] * len(names), *rows])


def _cells(row: Row) -> list[Any]:
    faults = sum(row.faults.values())
    counts = [row.requests, f"{row.tokens:,}", row.refused, row.cut_off, row.left]
    wrong = [row.duplicates, row.gaps, row.lost, row.misbilled, row.other]
    return [
        row.configuration,
        row.seconds,
        faults,
        *counts,
        *wrong,
        f"{row.longest_pause:.1f} s",
        row.rabbitmq,
        row.commit,
    ]
