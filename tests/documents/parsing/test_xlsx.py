"""XLSX files that openpyxl and XlsxWriter write: sheets are headings, runs of rows are tables."""

from __future__ import annotations

import datetime
import io

import openpyxl
import xlsxwriter

from documents.content import Block
from documents.parsing.reader import read_document
from documents.parsing.scans import Scans


def blocks(content: bytes) -> tuple[Block, ...]:
    return read_document(io.BytesIO(content), "file", Scans(None, 0.0)).blocks


def test_a_written_workbook() -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Płazy"
    sheet["B2"] = "Stan na dziś"
    for row in (["nazwa", "ile", "kiedy"], ["żaba", 3.0, datetime.datetime(2026, 5, 1)], [None, 0.5, True]):
        sheet.append(row)
    sheet["F9"] = "daleko"
    sheet["G9"] = 1
    workbook.create_sheet("Pusty")
    written = io.BytesIO()
    workbook.save(written)
    assert blocks(written.getvalue()) == (
        Block("heading", "Płazy", level=1),
        Block(
            "table",
            "|  | Stan na dziś |  |\n| --- | --- | --- |\n| nazwa | ile | kiedy |\n| żaba | 3 | 2026-05-01 |\n"
            "|  | 0.5 | TRUE |",
        ),
        Block("table", "| daleko | 1 |\n| --- | --- |"),
        Block("heading", "Pusty", level=1),
    )


def test_formulas_are_read_by_their_last_value() -> None:
    written = io.BytesIO()
    with xlsxwriter.Workbook(written) as workbook:
        sheet = workbook.add_worksheet("A")
        sheet.write_formula("A1", "=1+1", None, 2)
        sheet.write_string("B1", "=1+1")
    assert blocks(written.getvalue())[1].text == "| 2 | =1+1 |\n| --- | --- |"
