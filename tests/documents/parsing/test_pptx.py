"""PPTX files that python-pptx writes: slides are pages, titles are headings."""

from __future__ import annotations

import io

import pptx
from pptx.util import Inches

from documents.content import Block, Document
from documents.parsing.reader import read_document
from documents.parsing.scans import Scans


def test_a_written_presentation() -> None:
    presentation = pptx.Presentation()
    presentation.core_properties.title = "Płazy"
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Żaby"
    frame = slide.placeholders[1].text_frame
    frame.text = "zielone"
    paragraph = frame.add_paragraph()
    paragraph.text, paragraph.level = "rzekotki", 1
    slide.notes_slide.notes_text_frame.text = "Mów wolno."
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(2)).table
    for index, text in enumerate(["nazwa", "ile", "żaba", "3"]):
        table.cell(index // 2, index % 2).text = text
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "w grupie"
    written = io.BytesIO()
    presentation.save(written)
    assert read_document(io.BytesIO(written.getvalue()), "file", Scans(None, 0.0)) == Document(
        (
            Block("heading", "Żaby", level=1, page=1),
            Block("list", "- zielone\n  - rzekotki", page=1),
            Block("paragraph", "Mów wolno.", page=1),
            Block("table", "| nazwa | ile |\n| --- | --- |\n| żaba | 3 |", page=2),
            Block("paragraph", "w grupie", page=2),
        ),
        title="Płazy",
        pages=2,
    )
