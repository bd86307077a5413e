"""HTML documents: visible blocks in order, without what a reader does not see."""

from __future__ import annotations

import io

import pytest

from documents.content import Block, Document
from documents.parsing.reader import read_document
from documents.parsing.scans import Scans


def read(text: str | bytes) -> Document:
    content = text.encode() if isinstance(text, str) else text
    return read_document(io.BytesIO(content), "file.html", Scans(None, 0.0))


def test_a_document() -> None:
    document = read(
        "<!DOCTYPE html><html><head><title>Płazy &amp; gady</title><style>x</style></head><body>"
        "<nav>menu</nav><h1>Żaby</h1><p>Żaba <b>zielona</b><br>skacze.</p>luzem<div>w bloku</div>"
        "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul><ol><li>d<li>e</ol>"
        "<table><tr><th>nazwa<th>ile<tr><td>żaba<td>3</table><pre>x = 1\n  y = 2\n</pre></body></html>"
    )
    assert document == Document(
        (
            Block("heading", "Żaby", level=1),
            Block("paragraph", "Żaba zielona skacze."),
            Block("paragraph", "luzem"),
            Block("paragraph", "w bloku"),
            Block("list", "- a\n  - b\n- c"),
            Block("list", "1. d\n2. e"),
            Block("table", "| nazwa | ile |\n| --- | --- |\n| żaba | 3 |"),
            Block("code", "x = 1\n  y = 2"),
        ),
        title="Płazy & gady",
    )


@pytest.mark.parametrize(
    "hidden",
    [
        '<p style="display: none">x</p>',
        "<p hidden>x</p>",
        '<div aria-hidden="true"><p>x</p></div>',
        '<h2 style="font-size:0">x</h2>',
        "<script>x</script>",
        "<template><p>x</p></template>",
        '<p><span style="visibility:hidden">x</span></p>',
        "<!-- x -->",
        '<table><tr style="display:none"><td>x<td>y</table>',
        "<ul><li hidden>x</ul>",
    ],
)
def test_hidden_text_is_not_read(hidden: str) -> None:
    assert [block.text for block in read(f"<html><body>{hidden}<p>a</p></body></html>").blocks] == ["a"]


def test_tables_that_place_other_blocks_are_no_tables() -> None:
    found = read("<html><body><table><tr><td><h2>a</h2><p>b</p><td><table><tr><td>1<td>2</table></table></body></html>")
    assert [(block.kind, block.text) for block in found.blocks] == [
        ("heading", "a"),
        ("paragraph", "b"),
        ("table", "| 1 | 2 |\n| --- | --- |"),
    ]


@pytest.mark.parametrize(
    "content",
    [
        '<html><meta charset="iso-8859-2"><p>żaba'.encode("iso-8859-2"),
        '<?xml version="1.0" encoding="windows-1250"?><html><p>żaba'.encode("cp1250"),
        '<html><meta charset="no-such"><p>żaba'.encode(),
        "<html><p>żaba".encode("utf-16"),
    ],
)
def test_encodings(content: bytes) -> None:
    assert [block.text for block in read(content).blocks] == ["żaba"]


def test_deep_nesting_ends_without_an_error() -> None:
    read("<html><body>" + "<div>" * 100_000 + "deep")
