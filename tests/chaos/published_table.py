"""Tables of results in `docs/reliability.md`, each with its rows as JSON in `docs/`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from benchmarks.results import own_versions, this_machine
from infra.install.step import ROOT
from infra.rabbitmq.node import find_program

PAGE = ROOT / "docs" / "reliability.md"
Row = TypeVar("Row", bound=msgspec.Struct)


class MeasuredRow(msgspec.Struct, kw_only=True):
    """When, at which commit and on which machine a row was measured."""

    date: str
    commit: str
    rabbitmq: str
    python: str
    cpu: str
    """Model of the processor."""
    cores: int


def circumstances() -> dict[str, Any]:
    """Return the fields of `MeasuredRow` for a run of this process."""
    versions, machine = own_versions(), this_machine()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": versions["commit"],
        "rabbitmq": rabbitmq_version(),
        "python": versions["python"],
        "cpu": machine.cpu,
        "cores": machine.cores,
    }


def rabbitmq_version() -> str:
    """Return the version of RabbitMQ that nodes started by this process run, e.g. `3.10.8`."""
    command = [str(find_program("rabbitmqctl")), "version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


@dataclass(frozen=True)
class PublishedTable(Generic[Row]):
    """A table between two comments of the page, and its file of rows."""

    row: type[Row]
    file: str
    """Name of the file in `docs/`."""
    marker: str
    """Word of the comments around the table."""
    columns: Mapping[str, str]
    """Title of each column, and the format of its cells from the row, e.g. `{0.pause:.1f} s`."""
    key: Callable[[Row], Any]
    """What distinguishes rows, and orders them."""

    def read(self) -> list[Row]:
        """Return the published rows in order."""
        path = ROOT / "docs" / self.file
        return msgspec.json.decode(path.read_bytes(), type=list[self.row]) if path.exists() else []  # type: ignore[name-defined]

    def publish(self, rows: Sequence[Row]) -> None:
        """Put rows in the place of those with the same keys, in both files."""
        by_key = {self.key(row): row for row in [*self.read(), *rows]}
        ordered = [by_key[key] for key in sorted(by_key)]
        (ROOT / "docs" / self.file).write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
        before, _, rest = PAGE.read_text().partition(self._begin)
        PAGE.write_text(f"{before}{self.section(ordered)}{rest.partition(self._finish)[2]}")

    def section(self, rows: Sequence[Row]) -> str:
        """Return the table with the comments around it."""
        return f"{self._begin}\n{self.table(rows)}{self._finish}"

    def table(self, rows: Sequence[Row]) -> str:
        """Return rows as a Markdown table."""
        cells = [[each.format(row) for each in self.columns.values()] for row in rows]
        return markdown_table(list(self.columns), cells)

    @property
    def _begin(self) -> str:
        return f"<!-- {self.marker}: begin -->"

    @property
    def _finish(self) -> str:
        return f"<!-- {self.marker}: end -->"


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table with a header of `names`."""
    return "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in [names, ["---"] * len(names), *rows])
