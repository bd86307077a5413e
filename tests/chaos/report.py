"""Figures of runs: one row each, as JSON (`docs/reliability.json`) and as the table in `docs/reliability.md`."""

from __future__ import annotations

from collections import Counter

import msgspec

from benchmarks.results import own_versions, this_machine
from tests.chaos.checker import Run, longest_pause, look_at_text
from tests.chaos.configurations import CONFIGURATIONS
from tests.chaos.experiment import Outcome
from tests.chaos.history import End
from tests.chaos.published_table import PublishedTable, rabbitmq_version

NAMES = [each.name for each in CONFIGURATIONS]


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

    @property
    def all_faults(self) -> int:
        """Number of faults of all kinds."""
        return sum(self.faults.values())


TABLE = PublishedTable(
    Row,
    "reliability.json",
    "chaos",
    {
        "configuration": "{0.configuration}",
        "s": "{0.seconds}",
        "faults": "{0.all_faults}",
        "requests": "{0.requests}",
        "tokens": "{0.tokens:,}",
        "refused": "{0.refused}",
        "cut off": "{0.cut_off}",
        "left": "{0.left}",
        "duplicates": "{0.duplicates}",
        "gaps": "{0.gaps}",
        "lost": "{0.lost}",
        "mis-billed": "{0.misbilled}",
        "other": "{0.other}",
        "longest pause": "{0.longest_pause:.1f} s",
        "RabbitMQ": "{0.rabbitmq}",
        "commit": "{0.commit}",
    },
    key=lambda row: NAMES.index(row.configuration),
)


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


def _poison(run: Run) -> dict[str, int]:
    poison = sum(not request.innocent for request in run.requests)
    return {"poison": poison} if poison else {}
