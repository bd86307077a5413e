"""Reads XLSX files by openpyxl: a heading for each sheet, a table for each run of rows, formulas by their value."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO

import openpyxl

from documents.errors import FileTooLarge
from documents.parsing import open_xml
from documents.parsing.archive import Archive
from documents.parsing.block_collector import BlockCollector

MAX_SHEETS = 1000
"""Sheets of a workbook, at most."""
MAX_ROWS = 1_100_000
"""Rows of all sheets, empty ones between others too, at most."""


def read(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read the XLSX file `file`. Macros, charts, pictures and comments are ignored."""
    archive = Archive(file)
    for name in archive.names:
        if name.endswith((".xml", ".rels")):
            archive.admit(archive.size(name))
    blocks.title = open_xml.title(archive)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of extensions that openpyxl leaves out
        workbook = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        if len(workbook.worksheets) > MAX_SHEETS:
            raise FileTooLarge(f"The workbook has more than {MAX_SHEETS:,} sheets.")
        left = MAX_ROWS
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # they are claims
            blocks.heading(sheet.title, 1)
            rows: list[list[str]] = []
            for row in sheet.iter_rows(values_only=True):
                left -= 1
                if left < 0:
                    raise FileTooLarge(f"The workbook has more than {MAX_ROWS:,} rows.")
                cells = list(_cells(row))
                if cells:
                    rows.append(cells)
                elif rows:
                    blocks.table(rows)
                    rows = []
            blocks.table(rows)


def _cells(row: tuple[object, ...]) -> Iterator[str]:
    """Yield the texts of a row's cells up to the last one that is not empty."""
    last = max((index for index, value in enumerate(row) if value is not None), default=-1)
    return map(_text, row[: last + 1])


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case datetime():
            return value.isoformat(" ").removesuffix(" 00:00:00")
        case _:
            return str(value)
