"""Writes tables to CSV and XLSX files row by row, so of any length, for exports such as usage reports.

Text is never read as a formula: XLSX cells have the text type, and CSV text is escaped by an apostrophe (OWASP, "CSV
injection").
"""

from __future__ import annotations

import asyncio
import csv
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from xlsxwriter import Workbook

Cell = str | int | float | Decimal | datetime | None
"""A cell's value. Times are in UTC, `Decimal` is money, `None` is an empty cell."""
Row = Sequence[Cell]
Rows = AsyncIterator[Iterable[Row]]
"""Rows in batches; each batch is consumed in a thread."""

CSV_TYPE = "text/csv; charset=utf-8"
XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MAX_CELL_LENGTH = 32_767
"""Maximum length of a spreadsheet cell's text, in UTF-16 units."""
CHUNK_BYTES = 65_536

_FORMULA = frozenset("=+-@＝＋－＠\t\r\n")


async def csv_file(header: Sequence[str], rows: Rows) -> BinaryIO:
    """Write `header` and `rows` to a temporary CSV file (RFC 4180, UTF-8); return it open at its start.

    Closing deletes it.
    """
    return await _file(_CsvWriter, header, rows)


async def xlsx_file(header: Sequence[str], rows: Rows) -> BinaryIO:
    """Write `header` and `rows` to a temporary XLSX file; return it open at its start. Closing deletes it.

    Text longer than `MAX_CELL_LENGTH` is cut; use `split_for_cells` to spread it over several cells.
    """
    return await _file(_XlsxWriter, header, rows)


async def _file(kind: type[_CsvWriter] | type[_XlsxWriter], header: Sequence[str], rows: Rows) -> BinaryIO:
    """Write a file to disk batch by batch: memory stays bounded, and an incomplete file is never sent."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="headrace-table-"))
    try:
        with closing(kind(folder)) as table:
            await asyncio.to_thread(table.add, [header])
            async for some in rows:
                await asyncio.to_thread(table.add, some)
            return await asyncio.to_thread(table.finish)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the bytes of an open file in chunks, as the body of a download, then close the file."""
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
    finally:
        file.close()


def split_for_cells(text: str) -> list[str]:
    """Split a text into parts that fit into a spreadsheet cell each (counted in UTF-16 units).

    Return at least one part.
    """
    size = MAX_CELL_LENGTH if max(text, default="") <= "\uffff" else MAX_CELL_LENGTH // 2
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def escape_formula(text: str) -> str:
    """Return a CSV cell's text, with a leading apostrophe if a spreadsheet would read it as a formula."""
    return f"'{text}" if text.lstrip(" ")[:1] in _FORMULA and text else text


class _CsvWriter:
    """Writer of a CSV file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "table.csv"
        self._file = self._path.open("w", encoding="utf-8", errors="replace", newline="")
        self._writer = csv.writer(self._file, quoting=csv.QUOTE_NONNUMERIC)

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows to the CSV file."""
        self._writer.writerows([_csv_cell(cell) for cell in row] for row in rows)

    def finish(self) -> BinaryIO:
        """Complete the CSV file and return it, opened for reading."""
        self._file.close()
        return self._path.open("rb")

    def close(self) -> None:
        """Close the CSV file for writing, whether it is complete or was interrupted."""
        self._file.close()


def _csv_cell(cell: Cell) -> str | float | Decimal | None:
    if isinstance(cell, str):
        return escape_formula(cell)
    return cell.astimezone(UTC).isoformat(timespec="milliseconds") if isinstance(cell, datetime) else cell


class _XlsxWriter:
    """Writer of an XLSX workbook with one sheet."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "table.xlsx"
        options = {
            "constant_memory": True,
            "tmpdir": str(folder),
            "strings_to_formulas": False,
            "strings_to_numbers": False,
            "strings_to_urls": False,
        }
        self._book = Workbook(str(self._path), options)
        self._sheet: Any = self._book.add_worksheet("Headrace")
        self._time: Any = self._book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        self._money: Any = self._book.add_format({"num_format": "0.000000000"})
        self._row = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows to the workbook's sheet."""
        for row in rows:
            for column, cell in enumerate(row):
                self._write(column, cell)
            self._row += 1

    def finish(self) -> BinaryIO:
        """Complete the XLSX file and return it, opened for reading."""
        self._book.close()
        return self._path.open("rb")

    def close(self) -> None:
        """Close the temporary file of the sheet, which `Workbook` leaves open when the table is interrupted."""
        self._sheet.row_data_fh.close()

    def _write(self, column: int, cell: Cell) -> None:
        if isinstance(cell, str):
            self._sheet.write_string(self._row, column, cell[:MAX_CELL_LENGTH])
        elif isinstance(cell, datetime):
            self._sheet.write_datetime(self._row, column, cell.astimezone(UTC).replace(tzinfo=None), self._time)
        elif cell is not None:
            self._sheet.write_number(self._row, column, cell, self._money if isinstance(cell, Decimal) else None)
