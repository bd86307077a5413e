"""Tables as files: CSV and XLSX, row by row, of any length. Knows no HTTP and not what is in them.

Text stays text, whatever it begins with: in XLSX its cells have that type, in CSV an apostrophe keeps programs from
reading a formula (OWASP, "CSV injection"). Numbers stay numbers.
"""

from __future__ import annotations

import asyncio
import csv
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from xlsxwriter import Workbook

Cell = str | int | float | Decimal | datetime | None
"""Times are in UTC, `Decimal` is money; `None` leaves it empty."""
Row = Sequence[Cell]
Rows = AsyncIterator[Iterable[Row]]
"""Some at a time; they are gone through in a thread."""

CSV_TYPE = "text/csv; charset=utf-8"
XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
LONGEST_TEXT = 32_767
"""What a cell of a spreadsheet holds."""
CHUNK_BYTES = 65_536

_FORMULA = frozenset("=+-@＝＋－＠\t\r\n")


async def csv_file(heads: Sequence[str], rows: Rows) -> BinaryIO:
    """A whole CSV file (RFC 4180, UTF-8), open at its beginning; it is gone from the disk when it is closed."""
    return await _file(_Lines, heads, rows)


async def xlsx_file(heads: Sequence[str], rows: Rows) -> BinaryIO:
    """A whole XLSX file, open at its beginning; it is gone from the disk when it is closed.

    What is longer than a cell holds is cut: whoever wants it whole gives it more cells (`pieces`).
    """
    return await _file(_Sheet, heads, rows)


async def _file(kind: type[_Lines] | type[_Sheet], heads: Sequence[str], rows: Rows) -> BinaryIO:
    """Written to the disk some rows at a time: memory does not grow with it, and what breaks off is never sent."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="headrace-table-"))
    try:
        table = kind(folder)
        await asyncio.to_thread(table.add, [heads])
        async for some in rows:
            await asyncio.to_thread(table.add, some)
        return await asyncio.to_thread(table.finish)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    """The bytes of a file, which is closed then."""
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
    finally:
        file.close()


def pieces(text: str) -> list[str]:
    """A text as parts that each fit into a cell of a spreadsheet, which counts UTF-16 units; at least one."""
    size = LONGEST_TEXT if max(text, default="") <= "\uffff" else LONGEST_TEXT // 2
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def harmless(text: str) -> str:
    """Text that no spreadsheet takes for a formula when it reads CSV."""
    return f"'{text}" if text.lstrip(" ")[:1] in _FORMULA and text else text


class _Lines:
    """A CSV file, written from the top to the bottom."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "table.csv"
        self._file = self._path.open("w", encoding="utf-8", errors="replace", newline="")
        self._writer = csv.writer(self._file, quoting=csv.QUOTE_NONNUMERIC)

    def add(self, rows: Iterable[Row]) -> None:
        """Write some rows below those that are there."""
        self._writer.writerows([_csv_cell(cell) for cell in row] for row in rows)

    def finish(self) -> BinaryIO:
        """The file; the caller may delete its name."""
        self._file.close()
        return self._path.open("rb")


def _csv_cell(cell: Cell) -> str | float | Decimal | None:
    if isinstance(cell, str):
        return harmless(cell)
    return cell.astimezone(UTC).isoformat(timespec="milliseconds") if isinstance(cell, datetime) else cell


class _Sheet:
    """A workbook with one sheet, written from the top to the bottom."""

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
        """Write some rows below those that are there."""
        for row in rows:
            for column, cell in enumerate(row):
                self._write(column, cell)
            self._row += 1

    def finish(self) -> BinaryIO:
        """The file; the caller may delete its name."""
        self._book.close()
        return self._path.open("rb")

    def _write(self, column: int, cell: Cell) -> None:
        if isinstance(cell, str):
            self._sheet.write_string(self._row, column, cell[:LONGEST_TEXT])
        elif isinstance(cell, datetime):
            self._sheet.write_datetime(self._row, column, cell.astimezone(UTC).replace(tzinfo=None), self._time)
        elif cell is not None:
            self._sheet.write_number(self._row, column, cell, self._money if isinstance(cell, Decimal) else None)
