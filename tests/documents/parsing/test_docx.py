"""DOCX files: what python-docx writes, and parts that it can't."""

from __future__ import annotations

import io

import docx as python_docx
import pytest

from documents.content import Block, Document
from documents.errors import UnsupportedFormat
from documents.parsing.reader import read_document
from documents.parsing.scans import Scans
from tests.documents.parsing.files import docx, office


def read(content: bytes) -> Document:
    return read_document(io.BytesIO(content), "file", Scans(None, 0.0))


def blocks(content: bytes) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in read(content).blocks]


def test_a_written_document() -> None:
    document = python_docx.Document()
    document.core_properties.title = "Płazy"
    document.add_heading("Żaby", level=1)
    document.add_paragraph("Żaba   zielona\tskacze.")
    document.add_heading("Rzekotki", level=2)
    document.add_paragraph("pierwsza", style="List Bullet")
    document.add_paragraph("druga", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip((cell for row in table.rows for cell in row.cells), ["nazwa", "ile", "a|b", ""], strict=True):
        cell.text = text
    written = io.BytesIO()
    document.save(written)
    assert read(written.getvalue()) == Document(
        (
            Block("heading", "Żaby", level=1),
            Block("paragraph", "Żaba zielona skacze."),
            Block("heading", "Rzekotki", level=2),
            Block("list", "- pierwsza\n- druga"),
            Block("table", "| nazwa | ile |\n| --- | --- |\n| a\\|b |  |"),
        ),
        title="Płazy",
    )


def test_headings_by_the_names_of_styles_and_by_what_they_inherit() -> None:
    styles = (
        '<w:style w:styleId="Nagwek2"><w:name w:val="heading 2"/></w:style>'
        '<w:style w:styleId="Own"><w:name w:val="Own"/><w:basedOn w:val="Nagwek2"/></w:style>'
        '<w:style w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>'
    )
    paragraphs = "".join(
        f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>x</w:t></w:r></w:p>"
        for properties in (
            '<w:pStyle w:val="Nagwek2"/>',
            '<w:pStyle w:val="Own"/>',
            '<w:outlineLvl w:val="2"/>',
            '<w:pStyle w:val="Loop"/>',
            '<w:pStyle w:val="Missing"/>',
        )
    )
    assert [block.level for block in read(docx(paragraphs, styles=styles)).blocks] == [2, 2, 3, None, None]


def test_content_controls_insertions_and_text_boxes_are_read_and_deletions_are_not() -> None:
    run = "<w:r><w:t>{}</w:t></w:r>"
    body = (
        f"<w:sdt><w:sdtContent><w:p>{run.format('control')}</w:p></w:sdtContent></w:sdt>"
        f"<w:p><w:ins>{run.format('inserted')}</w:ins><w:del>{run.format('deleted')}</w:del></w:p>"
        f"<w:p>{run.format('around')}<w:r><w:txbxContent><w:p>{run.format('box')}</w:p></w:txbxContent></w:r></w:p>"
    )
    assert [text for _, text in blocks(docx(body))] == ["control", "inserted", "around", "box"]


def test_notes_follow_the_paragraph_that_refers_to_them() -> None:
    body = '<w:p><w:r><w:t>text</w:t><w:footnoteReference w:id="2"/></w:r></w:p><w:p><w:r><w:t>next</w:t></w:r></w:p>'
    notes = '<w:footnote w:id="2"><w:p><w:r><w:t>przypis</w:t></w:r></w:p></w:footnote>'
    assert [text for _, text in blocks(docx(body, footnotes=notes))] == ["text", "przypis", "next"]


def test_cells_that_span_columns_keep_the_columns_after_them() -> None:
    cell = "<w:tc><w:tcPr>{}</w:tcPr><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    wide = cell.format('<w:gridSpan w:val="2"/>', "wide") + cell.format("", "c")
    narrow = "".join(cell.format("", each) for each in "123")
    assert blocks(docx(f"<w:tbl><w:tr>{wide}</w:tr><w:tr>{narrow}</w:tr></w:tbl>")) == [
        ("table", "| wide |  | c |\n| --- | --- | --- |\n| 1 | 2 | 3 |")
    ]


def test_a_table_of_one_cell_is_a_frame() -> None:
    paragraphs = "<w:p><w:r><w:t>a</w:t></w:r></w:p><w:p><w:r><w:t>b</w:t></w:r></w:p>"
    body = f"<w:tbl><w:tr><w:tc>{paragraphs}</w:tc></w:tr></w:tbl>"
    assert blocks(docx(body)) == [("paragraph", "a"), ("paragraph", "b")]


def test_pages_that_a_word_processor_has_noted() -> None:
    body = "".join(
        f"<w:p><w:r><w:t>{text}</w:t>{after}</w:r></w:p>"
        for text, after in (("a", ""), ("b", "<w:lastRenderedPageBreak/>"), ("c", ""))
    )
    document = read(docx(body))
    assert [block.page for block in document.blocks] == [1, 1, 2]
    assert document.pages == 2


def test_strict_open_xml_is_refused() -> None:
    strict = '<w:document xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"><w:body/></w:document>'
    with pytest.raises(UnsupportedFormat, match="Strict"):
        read(office("word/document.xml", {"word/document.xml": strict}))
