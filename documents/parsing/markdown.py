"""Reads Markdown files (CommonMark with tables) by markdown-it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

from markdown_it import MarkdownIt
from markdown_it.token import Token

from documents.parsing.block_collector import BlockCollector, clean
from documents.parsing.html import read_html
from documents.parsing.text_decoding import decode_text
from documents.parsing.text_file import read_bytes

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def read(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read a Markdown file. Of YAML metadata at its beginning only the title is read."""
    text = clean(decode_text(read_bytes(file)))
    metadata = _FRONT_MATTER.match(text)
    if metadata is not None:
        text = text[metadata.end() :]
        title = _TITLE.search(metadata[1])
        blocks.title = title[1].strip("\"'") if title is not None else ""
    _Walk(blocks).read(_parser.parse(text))


class _Walk:
    """Turns the tokens of a Markdown file, which open and close blocks, into blocks of a document."""

    def __init__(self, blocks: BlockCollector) -> None:
        self._blocks = blocks
        self._numbers: list[int | None] = []
        """Lists that are open: the number of the next item, `None` in a list of bullets."""
        self._marker = ""
        """Marker of the list's item that is open; empty outside of items."""
        self._heading = 0
        self._rows: list[list[str]] | None = None

    def read(self, tokens: Sequence[Token]) -> None:
        """Read all tokens of a file, in order."""
        for token in tokens:
            match token.type:
                case "heading_open":
                    self._heading = int(token.tag[1:])
                case "bullet_list_open":
                    self._numbers.append(None)
                case "ordered_list_open":
                    self._numbers.append(int(token.attrGet("start") or 1))
                case "list_item_open":
                    self._begin_item()
                case "bullet_list_close" | "ordered_list_close":
                    self._end_list()
                case "table_open":
                    self._rows = []
                case "tr_open":
                    self._rows = [*(self._rows or []), []]
                case "table_close":
                    self._blocks.table(self._rows or [])
                    self._rows = None
                case "inline":
                    self._inline(inline_text(token))
                case "fence" | "code_block":
                    self._blocks.code(token.content)
                case "html_block":
                    read_html(token.content, self._blocks)

    def _begin_item(self) -> None:
        number = self._numbers[-1]
        self._marker = "-" if number is None else f"{number}."
        if number is not None:
            self._numbers[-1] = number + 1

    def _end_list(self) -> None:
        self._numbers.pop()
        if not self._numbers:
            self._marker = ""
            self._blocks.end_list()

    def _inline(self, text: str) -> None:
        if self._rows is not None:
            self._rows[-1].append(text)
        elif self._heading:
            self._blocks.heading(text, self._heading)
            self._heading = 0
        elif self._marker:
            self._blocks.list_item(text, len(self._numbers) - 1, self._marker)
        else:
            self._blocks.paragraph(text)


def inline_text(token: Token) -> str:
    """Return the text of an inline token without its marks; of an image its alternative text."""
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type == "image":
            parts.append(inline_text(child))
        elif child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
    return "".join(parts)
