"""Documents join their blocks to one text, in which offsets are found again."""

from __future__ import annotations

import msgspec

from documents.content import Block, Document

DOCUMENT = Document(
    (
        Block("heading", "Zażółć", level=1, page=1),
        Block("paragraph", "gęślą 😀 jaźń", page=1),
        Block("table", "| a |\n| --- |\n| 1 |", page=2),
    )
)


def test_the_text_joins_the_blocks() -> None:
    assert DOCUMENT.text == "Zażółć\n\ngęślą 😀 jaźń\n\n| a |\n| --- |\n| 1 |"


def test_blocks_are_at_their_offsets() -> None:
    placed = list(DOCUMENT.placed_blocks())
    assert [DOCUMENT.text[start : start + len(block.text)] for start, block in placed] == [
        block.text for block in DOCUMENT.blocks
    ]


def test_a_document_without_blocks_has_no_text() -> None:
    assert Document(()).text == ""
    assert list(Document(()).placed_blocks()) == []


def test_documents_survive_the_wire() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(DOCUMENT), type=Document) == DOCUMENT
