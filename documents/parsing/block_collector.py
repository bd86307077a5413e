"""Collects the blocks of a document that a parser reads, within limits on their text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from documents.content import Block, BlockKind, Document
from documents.errors import FileTooLarge

MAX_CHARACTERS = 10_000_000
"""Characters of a document's text, at most: about 5,000 pages."""
MAX_BLOCKS = 400_000
"""Blocks of a document, at most."""
MAX_HEADING = 300
"""Characters of a heading, at most; longer ones are paragraphs."""
MAX_TITLE = 300

_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f\u00ad\u200b\u2060\ufeff\ufffe\ud800-\udfff]")
"""Control characters except tab and line break, soft hyphens, characters of no width, and lone surrogates."""


class BlockCollector:
    """Collects a document's blocks in reading order. Consecutive items of a list become one block.

    Attributes:
        title: title that the file itself names.
        pages: number of the document's pages; `None` in a format without pages.
        page: page of the blocks that follow; `None` in a format without pages.
    """

    def __init__(self) -> None:
        self.title = ""
        self.pages: int | None = None
        self.page: int | None = None
        self._blocks: list[Block] = []
        self._items: list[str] = []
        self._items_page: int | None = None
        self._warnings: list[str] = []
        self._characters = 0

    def heading(self, text: str, level: int) -> None:
        """Add a heading of depth `level`, from 1; a very long one as a paragraph."""
        text = one_line(text)
        if len(text) > MAX_HEADING:
            self.paragraph(text)
        else:
            self._add("heading", text, level=level)

    def paragraph(self, text: str) -> None:
        """Add a paragraph, as one line."""
        self._add("paragraph", one_line(text))

    def list_item(self, text: str, depth: int = 0, marker: str = "-") -> None:
        """Add an item to the list that ends here, or begin a list with it; `depth` is 0 in the outermost list."""
        line = one_line(text)
        if not line:
            return
        if not self._items:
            self._items_page = self.page
        self._count(len(line))
        self._items.append(f"{'  ' * min(depth, 8)}{marker} {line}")

    def end_list(self) -> None:
        """End the current list, so that the next item begins another."""
        if self._items:
            items, self._items = self._items, []
            self._append(Block("list", "\n".join(items), page=self._items_page))

    def code(self, text: str) -> None:
        """Add code, with its line breaks and its indentation."""
        self._add("code", multiple_lines(text))

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Add a table as Markdown, whose first row names the columns; one of a single column as paragraphs.

        Empty rows and empty columns are left out.
        """
        kept: list[list[str]] = []
        for row in rows:
            cells = [one_line(cell) for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            self._count(sum(map(len, cells)) + len(cells))
            if cells:
                kept.append(cells)
        width = max(map(len, kept), default=0)
        used = [column for column in range(width) if any(column < len(row) and row[column] for row in kept)]
        if len(used) < 2:
            for row in kept:
                self._add("paragraph", row[used[0]], counted=True)
            return
        lines = [_table_row([row[column] if column < len(row) else "" for column in used]) for row in kept]
        lines.insert(1, _table_row(["---"] * len(used)))
        self._add("table", "\n".join(lines), counted=True)

    def warn(self, sentence: str) -> None:
        """Add a sentence for people on content of the file that was not read."""
        self._warnings.append(sentence)

    def document(self) -> Document:
        """Return the document of all blocks so far."""
        self.end_list()
        return Document(tuple(self._blocks), one_line(self.title)[:MAX_TITLE], self.pages, tuple(self._warnings))

    def _add(self, kind: BlockKind, text: str, *, level: int | None = None, counted: bool = False) -> None:
        self.end_list()
        if text:
            if not counted:
                self._count(len(text))
            self._append(Block(kind, text, level, self.page))

    def _append(self, block: Block) -> None:
        if len(self._blocks) >= MAX_BLOCKS:
            raise FileTooLarge(f"The file has more than {MAX_BLOCKS:,} paragraphs.")
        self._blocks.append(block)

    def _count(self, characters: int) -> None:
        self._characters += characters
        if self._characters > MAX_CHARACTERS:
            raise FileTooLarge(f"The file has more than {MAX_CHARACTERS:,} characters of text.")


def one_line(text: str) -> str:
    """Return `text` composed (NFC) in one line: white space becomes single spaces, control characters are removed."""
    return " ".join(clean(text).split())


def multiple_lines(text: str) -> str:
    """Return `text` composed (NFC) with its indentation, without control characters and without empty lines around."""
    lines = [line.rstrip() for line in clean(text).split("\n")]
    return "\n".join(lines).strip("\n")


def clean(text: str) -> str:
    """Return `text` composed (NFC), with line feeds as line breaks and without control characters."""
    return unicodedata.normalize("NFC", _UNWANTED.sub("", _LINE_BREAK.sub("\n", text)))


def _table_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
