"""Output of commands on the store: tables keep one line per row in terminals and pipes of any width."""

from __future__ import annotations

import pytest
from rich.table import Table

from infra.cli.store_command import print_table


@pytest.mark.parametrize("columns", ["20", "80", "500"])
def test_rows_are_whole_at_every_width(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ids = [f"{letter * 60}-{letter * 60}" for letter in "ab"]
    table = Table(title="keys", box=None)
    for column in ("key", "name"):
        table.add_column(column, overflow="fold")
    for each in ids:
        table.add_row(each, "a name of several words")
    print_table(table)
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split() for row in rows] == [[each, *["a", "name", "of", "several", "words"]] for each in ids]
