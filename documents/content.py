"""Text of a parsed document: blocks in reading order, and the passages that are made of them for search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

BlockKind = Literal["heading", "paragraph", "list", "table", "code"]
SEPARATOR = "\n\n"
"""Text between two blocks in the joined text of a document."""
NO_TEXT = "The file has no text."
"""Warning of a document without blocks that has no other warning."""


class Block(msgspec.Struct, frozen=True):
    """A piece of a document: a heading, a paragraph, a list, a table or code.

    A table is text in Markdown: a row with the names of columns, a delimiter row, then one line for each row.
    """

    kind: BlockKind
    text: str
    level: int | None = None
    """Depth of a heading, from 1; `None` for other blocks."""
    page: int | None = None
    """Page or slide that the block begins on, from 1; `None` in a format without pages."""


class Document(msgspec.Struct, frozen=True):
    """Text of a file as blocks in reading order, with what its parser has to say to people."""

    blocks: tuple[Block, ...]
    title: str = ""
    """Title that the file itself names; empty without one."""
    pages: int | None = None
    """Number of pages or slides; `None` in a format without pages."""
    warnings: tuple[str, ...] = ()
    """Sentences for people on content that was not read, such as scanned pages."""
    recognised_pages: int = 0
    """Number of pages whose text was recognised in their images (OCR)."""

    @property
    def text(self) -> str:
        """Joined text of all blocks, which the offsets of passages count in."""
        return SEPARATOR.join(block.text for block in self.blocks)

    def placed_blocks(self) -> Iterator[tuple[int, Block]]:
        """Yield each block after the offset in `text` at which the block begins."""
        start = 0
        for block in self.blocks:
            yield start, block
            start += len(block.text) + len(SEPARATOR)


class Passage(msgspec.Struct, frozen=True):
    """A piece of a document that is searched and cited as a whole.

    `text` is the document's text from `start` to `end`; a later piece of a table has the table's header before it.
    """

    text: str
    page: int | None
    """Page that the passage begins on, from 1; `None` in a format without pages."""
    heading_path: tuple[str, ...]
    """Headings above the passage, the outermost first: those that all of its text is under."""
    start: int
    """Offset of the first character in `Document.text`."""
    end: int
    """Offset after the last character in `Document.text`."""
    tokens: int
    """Number of tokens of `text`, by the counting function of the caller."""
