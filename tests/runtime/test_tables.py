"""Exported tables are readable, and no cell is a formula (H91)."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import openpyxl
import pytest

from runtime import tables

AT = datetime(2026, 11, 21, 15, 4, 5, 250_000, tzinfo=UTC)
HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    '=HYPERLINK("http://evil.example","x")',
    "=cmd|'/c calc'!A0",
    "＝1+1",
    'a"b',
    "two\nlines",
    "https://example.org",
    "123",
    "",
    "é",
]


async def rows(of: Sequence[tables.Row], at_once: int = 3) -> AsyncIterator[Sequence[tables.Row]]:
    for begin in range(0, len(of), at_once):
        yield of[begin : begin + at_once]


ROWS: list[tables.Row] = [(text, 7 + number, Decimal("0.000000001"), AT) for number, text in enumerate(HOSTILE)]
HEADS = ("text", "count", "usd", "at")


async def test_xlsx_has_text_and_numbers_and_no_formula() -> None:
    with await tables.xlsx_file(HEADS, rows(ROWS)) as file:
        sheet = openpyxl.load_workbook(file).active
        assert sheet is not None
        found = list(sheet.iter_rows())
    assert [cell.value for cell in found[0]] == list(HEADS)
    for text, row in zip(HOSTILE, found[1:], strict=True):
        assert (row[0].value or "").replace("\r\n", "\n").replace("_x000D_", "\r") == text.replace("\r\n", "\n")
        assert row[0].data_type in ("s", "inlineStr", "n") if text == "" else row[0].data_type in ("s", "inlineStr")
        assert row[0].hyperlink is None
        assert [cell.data_type for cell in row[1:]] == ["n", "n", "d"]
        assert (row[2].value, row[3].value) == (1e-09, AT.replace(tzinfo=None))
    assert not [cell for row in found for cell in row if cell.data_type == "f"]


async def test_csv_cells_do_not_begin_like_formulas() -> None:
    with await tables.csv_file(HEADS, rows(ROWS)) as file:
        text = file.read().decode()
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[0] == list(HEADS)
    assert [row[0].removeprefix("'") for row in read[1:]] == HOSTILE
    assert not [row for row in read if row[0].lstrip(" ")[:1] in set("=+-@＝＋－＠\t\r\n") - {""}]
    assert read[1][1:] == ["7", "1E-9", "2026-11-21T15:04:05.250+00:00"]
    assert '"7"' not in text  # a number is not quoted


async def test_an_interrupted_table_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def broken() -> AsyncIterator[Sequence[tables.Row]]:
        yield ROWS
        raise ConnectionError("the store went away")

    for write in (tables.csv_file, tables.xlsx_file):
        with pytest.raises(ConnectionError):
            await write(HEADS, broken())
        assert os.listdir(tmp_path) == []
        with await write(HEADS, rows(ROWS)) as file:
            assert os.listdir(tmp_path) == []
            assert file.read(1)
