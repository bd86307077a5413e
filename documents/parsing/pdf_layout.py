"""Makes blocks of the words of PDF pages by their places: lines, paragraphs, lists, headings and simple tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from documents.parsing.block_collector import BlockCollector

HEADING_SIZE = 1.15
"""Height of a heading's lines, relative to those of the text, at least."""
MAX_HEADING = 200
"""Characters of a heading, at most."""
_SAME_LINE = 0.5
"""Share of the lower word's height by which words of a line overlap, at least."""
_CELL_GAP = 1.0
"""Gap between two cells of a row, relative to the height of the line, at least."""
_PARAGRAPH_GAP = 0.6
"""Gap between two paragraphs, relative to the height of a line, at least."""
_SAME_SIZE = 0.12
"""Relative difference of the heights of a paragraph's lines, at most."""
_MAX_CELL = 60
"""Characters of a table's cell on average, at most; longer ones are columns of text."""
_RUNNING_PAGES = 4
"""Pages that a document must have for its running headers to be recognised."""
_HYPHENS = ("\x02", "\ufffe", "\u00ad")
"""Characters for a hyphen that divides a word at the end of a line."""
_ITEM = re.compile(r"(?:([•▪‣◦●■□–*\-\uf0b7\uf0a7])|(\d{1,2}[.)]))\s+(?=\S)")


class Word(NamedTuple):
    """A word with its place on the page in points, from the lower left corner."""

    text: str
    left: float
    right: float
    top: float
    bottom: float


class Line:
    """Words beside each other on a page, from left to right, joined to cells.

    Attributes:
        cells: the words, joined to one where the gap between them is that of a space; at least one.
        top: upper edge of the highest word in points, from the lower edge of the page.
        bottom: lower edge of the lowest word.
    """

    __slots__ = ("_last_left", "bottom", "cells", "top")

    def __init__(self, word: Word) -> None:
        self.cells = [word]
        self.top = word.top
        self.bottom = word.bottom
        self._last_left = word.left

    @property
    def height(self) -> float:
        """Height of the line's highest word in points."""
        return max(self.top - self.bottom, 0.1)

    @property
    def text(self) -> str:
        """Text of the line with single spaces."""
        return " ".join(cell.text for cell in self.cells)

    def takes(self, word: Word) -> bool:
        """Return whether a word continues the line: beside its last word, and to the right of it."""
        overlap = min(self.top, word.top) - max(self.bottom, word.bottom)
        lower = min(self.height, max(word.top - word.bottom, 0.1))
        return overlap >= _SAME_LINE * lower and word.left >= self._last_left

    def add(self, word: Word) -> None:
        """Add a word at the end of the line."""
        self.top = max(self.top, word.top)
        self.bottom = min(self.bottom, word.bottom)
        self._last_left = word.left
        last = self.cells[-1]
        if word.left - last.right > _CELL_GAP * self.height:
            self.cells.append(word)
        else:
            self.cells[-1] = last._replace(text=f"{last.text} {word.text}", right=max(last.right, word.right))


@dataclass(frozen=True)
class Page:
    """The lines of a page, in the order of its content."""

    number: int
    lines: list[Line]


def lines_of_words(words: Iterable[Word]) -> list[Line]:
    """Return the lines that the words of a page form, in the order of its content."""
    lines: list[Line] = []
    for word in words:
        if lines and lines[-1].takes(word):
            lines[-1].add(word)
        else:
            lines.append(Line(word))
    return lines


def read_pages(pages: Sequence[Page], blocks: BlockCollector) -> None:
    """Read the pages of a document. Headers and footers that most pages repeat are left out."""
    running = _running_lines(pages)
    kept = [Page(page.number, _without(page.lines, running)) for page in pages]
    levels = _heading_levels(kept)
    for page in kept:
        blocks.page = page.number
        _read_page(page.lines, levels, blocks)
        blocks.end_list()


def _running_lines(pages: Sequence[Page]) -> set[str]:
    """Return the highest and lowest lines that more than half of the pages have, with `#` for their numbers."""
    if len(pages) < _RUNNING_PAGES:
        return set()
    counts = Counter(text for page in pages for text in {_template(line) for line in _margins(page.lines)})
    return {text for text, count in counts.items() if count > len(pages) / 2}


def _without(lines: list[Line], running: set[str]) -> list[Line]:
    left_out = [line for line in _margins(lines) if _template(line) in running]
    return [line for line in lines if line not in left_out] if left_out else lines


def _margins(lines: Sequence[Line]) -> tuple[Line, Line]:
    """Return the highest and the lowest of a page's lines."""
    return max(lines, key=lambda line: line.top), min(lines, key=lambda line: line.bottom)


def _template(line: Line) -> str:
    return re.sub(r"\d+", "#", line.text)


def _heading_levels(pages: Sequence[Page]) -> dict[float, int]:
    """Return the depth of headings by the height of their lines, as `_size` rounds it."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            sizes[_size(line)] += len(line.text)
    if not sizes:
        return {}
    body = median(sizes.elements()) if sum(sizes.values()) < 100_000 else sizes.most_common(1)[0][0]
    larger = sorted((size for size in sizes if size >= body * HEADING_SIZE), reverse=True)
    return {size: min(level, 6) for level, size in enumerate(larger, start=1)}


def _size(line: Line) -> float:
    return round(line.height * 2) / 2


def _read_page(lines: Sequence[Line], levels: dict[float, int], blocks: BlockCollector) -> None:
    text: list[Line] = []
    start = 0
    while start < len(lines):
        end = _run_end(lines, start)
        rows = _table(lines[start:end])
        if rows:
            _read_text(text, levels, blocks)
            blocks.table(rows)
            text = []
        else:
            text += lines[start:end]
        start = end
    _read_text(text, levels, blocks)


def _read_text(lines: Sequence[Line], levels: dict[float, int], blocks: BlockCollector) -> None:
    """Read lines that are no table, divided into paragraphs."""
    start = 0
    for end in range(1, len(lines) + 1):
        if end == len(lines) or not _continues(lines[end - 1], lines[end]):
            _read_paragraph(lines[start:end], levels, blocks)
            start = end


def _continues(before: Line, line: Line) -> bool:
    """Return whether a line continues the paragraph of the line before it."""
    gap = before.bottom - line.top
    height = max(before.height, line.height)
    same_size = abs(before.height - line.height) <= _SAME_SIZE * height
    return same_size and -height < gap <= _PARAGRAPH_GAP * height and _ITEM.match(line.text) is None


def _read_paragraph(lines: Sequence[Line], levels: dict[float, int], blocks: BlockCollector) -> None:
    text = _joined(lines)
    item = _ITEM.match(text)
    level = levels.get(_size(lines[0]), 0)
    if level and len(text) <= MAX_HEADING and any(character.isalpha() for character in text):
        blocks.heading(text, level)
    elif item is not None:
        blocks.list_item(text[item.end() :], marker=item[2] or "-")
    else:
        blocks.paragraph(text)


def _joined(lines: Sequence[Line]) -> str:
    """Return the text of a paragraph's lines, with divided words put together."""
    text = ""
    for line in lines:
        divided = text.endswith(_HYPHENS)
        text = text[:-1] + line.text if divided else f"{text} {line.text}" if text else line.text
    return text


def _run_end(lines: Sequence[Line], start: int) -> int:
    """Return the end of the run of lines from `start` that may be rows of a table: several cells, close together.

    A line of one cell between two rows continues the cell above it. A line that begins no run is a run of its own.
    """
    if len(lines[start].cells) < 2:
        return start + 1
    end = start + 1
    while end < len(lines) and _is_close(lines[end - 1], lines[end]):
        if len(lines[end].cells) < 2 and (end + 1 >= len(lines) or len(lines[end + 1].cells) < 2):
            break
        end += 1
    return end


def _is_close(before: Line, line: Line) -> bool:
    """Return whether a line is below the one before it, by at most three lines."""
    return -line.height < before.bottom - line.top < 3 * line.height


def _table(lines: Sequence[Line]) -> list[list[str]]:
    """Return the rows of a table whose lines are `lines`; none if the cells form no columns."""
    if len(lines) < 2:
        return []
    cells = [line.cells for line in lines]
    columns = _columns(cell for row in cells for cell in row)
    texts = [cell.text for row in cells for cell in row]
    if len(columns) < 2 or sum(map(len, texts)) > _MAX_CELL * len(texts):
        return []
    rows: list[list[str]] = []
    for row in cells:
        if len(row) == 1 and rows:
            column = _column(row[0], columns)
            rows[-1][column] = f"{rows[-1][column]} {row[0].text}".strip()
            continue
        texts = [""] * len(columns)
        for cell in row:
            column = _column(cell, columns)
            texts[column] = f"{texts[column]} {cell.text}".strip()
        rows.append(texts)
    return rows if len(rows) > 1 else []


def _columns(cells: Iterable[Word]) -> list[tuple[float, float]]:
    """Return the intervals on the x axis that the cells cover together, from left to right."""
    columns: list[tuple[float, float]] = []
    for cell in sorted(cells, key=lambda cell: cell.left):
        if columns and cell.left <= columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], cell.right))
        else:
            columns.append((cell.left, cell.right))
    return columns


def _column(cell: Word, columns: Sequence[tuple[float, float]]) -> int:
    return next(index for index, (left, right) in enumerate(columns) if left <= cell.left <= right)
