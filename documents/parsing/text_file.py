"""Reads plain text files as paragraphs, and source code as code."""

from __future__ import annotations

import re
from typing import BinaryIO

from documents.errors import FileTooLarge
from documents.parsing.block_collector import MAX_CHARACTERS, BlockCollector, clean
from documents.parsing.text_decoding import decode_text

MAX_TEXT_BYTES = 4 * MAX_CHARACTERS
"""Bytes of a file that is text, at most."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")
_UNINDENTED_AFTER_EMPTY_LINE = re.compile(r"\n[ \t]*\n(?=\S)")
_ITEM = re.compile(r"[ \t]*(?:[-*•–]|\d{1,3}[.)])[ \t]+\S")


def read_bytes(file: BinaryIO) -> bytes:
    """Return all bytes of a file that is text; raise `FileTooLarge` if they are more than `MAX_TEXT_BYTES`."""
    file.seek(0)
    content = file.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise FileTooLarge(f"The file has more than {MAX_CHARACTERS:,} characters of text.")
    return content


def read(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read a plain text file: paragraphs end at empty lines; lines that all begin with a marker are a list."""
    for paragraph in _PARAGRAPH_END.split(clean(decode_text(read_bytes(file)))):
        lines = paragraph.splitlines()
        if lines and all(map(_ITEM.match, lines)):
            for line in lines:
                marker, _, text = line.strip().partition(" ")
                blocks.list_item(text, marker=marker)
            blocks.end_list()
        else:
            blocks.paragraph(paragraph)


def read_code(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read source code: a block for each run of lines that begins without indentation after an empty line."""
    for piece in _UNINDENTED_AFTER_EMPTY_LINE.split(clean(decode_text(read_bytes(file)))):
        blocks.code(piece)
