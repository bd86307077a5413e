"""Reads CSV files and those with other separators as one table, and recognises the separator."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

from documents.errors import DamagedFile
from documents.parsing.block_collector import BlockCollector, clean
from documents.parsing.text_decoding import decode_text
from documents.parsing.text_file import read_bytes

SEPARATORS = (",", ";", "\t", "|")
_SAMPLE_ROWS = 30
csv.field_size_limit(1_000_000)


def read(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read a file of separated values as one table."""
    text = clean(decode_text(read_bytes(file)))
    separator = recognise_separator(text) or ","
    try:
        blocks.table(_rows(text, separator))
    except csv.Error as error:
        raise DamagedFile(f"The file is damaged: {error}.") from error


def recognise_separator(text: str) -> str | None:
    """Return the separator by which the first rows of `text` have the same number of cells, at least two.

    The separator with most cells wins; `None` if no separator divides the rows evenly.
    """
    widths = {separator: _even_width(text, separator) for separator in SEPARATORS}
    best = max(SEPARATORS, key=lambda separator: widths[separator])
    return best if widths[best] > 1 else None


def _even_width(text: str, separator: str) -> int:
    """Return the number of cells that nearly all of the first rows have; 0 if there is none."""
    try:
        widths = [len(row) for row in islice(_rows(text, separator), _SAMPLE_ROWS) if row]
    except csv.Error:
        return 0
    if not widths:
        return 0
    common = max(set(widths), key=widths.count)
    return common if widths.count(common) >= 0.9 * len(widths) else 0


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    return iter(csv.reader(_lines(text), delimiter=separator))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of `text` with their ends, without a copy of the whole text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end
