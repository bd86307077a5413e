"""Prints benchmark results on the terminal as tables or lines, and formats figures, for the document too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.results import Result, Row, Value

WIDTH = 200
"""Least width of the table in columns, so that no figure is cut off."""
MARGIN = "_pm"
"""Plus or minus: end of the name of a column with half the width of another column's confidence interval."""


def print_result(result: Result, path: Path) -> None:
    """Print the rows of a benchmark result as a table on the terminal, under its name and the name of its file."""
    print_rows(result.rows, f"{result.name}: {path.name}")


def print_rows(rows: Sequence[Row], title: str) -> None:
    """Print result rows as a table on the terminal, under `title`, with every column that any row has."""
    shown = with_margins(rows)
    columns = list(dict.fromkeys(column for row in shown for column in row))
    table = Table(*columns, title=title, title_justify="left")
    for row in shown:
        table.add_row(*(format_value(row.get(column)) for column in columns))
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(table)


def with_margins(rows: Sequence[Row]) -> list[Row]:
    """Return result rows with the margin of a confidence interval, if there is one, in the cell of its mean."""
    return [{column: _with_margin(row, column) for column in row if not column.endswith(MARGIN)} for row in rows]


def _with_margin(row: Row, column: str) -> Value:
    margin = row.get(column + MARGIN)
    return row[column] if margin is None else f"{format_value(row[column])} ± {format_value(margin)}"


def print_lines(rows: Sequence[Row]) -> None:
    """Print each result row as a line of `column=value` on the terminal, for tables that are too wide."""
    for row in rows:
        print(*(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in row.items()))


def format_value(value: Value) -> str:
    """Return a result's value as text: floats below 100 with three significant digits, larger ones rounded to integers.

    Thousands are separated, booleans are `on` or `off`, no value is `-`, and text stays as it is.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return value
