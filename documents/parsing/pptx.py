"""Reads PPTX files: titles, texts, tables and notes of each slide; macros, pictures and charts are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from documents.errors import FileTooLarge, UnsupportedFormat
from documents.parsing import open_xml
from documents.parsing.archive import Archive
from documents.parsing.block_collector import BlockCollector
from documents.parsing.xml_trees import attribute

MAX_SLIDES = 5000
"""Slides of a presentation, at most."""
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_RELATIONSHIP = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TITLES = ("title", "ctrTitle")
_IGNORED = ("dt", "ftr", "sldNum", "sldImg")
"""Placeholders of date, footer, slide number, and of the picture of a slide beside its notes."""


def read(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read the PPTX file `file`; its slides are its pages."""
    archive = Archive(file)
    name = open_xml.main_part(archive)
    blocks.title = open_xml.title(archive)
    root = archive.xml(name)
    if root.tag != f"{_P}presentation":
        raise UnsupportedFormat("The file has the format Strict Open XML: save it as an ordinary PPTX file.")
    slides = [attribute(each, "id", _RELATIONSHIP) for each in root.iter(f"{_P}sldId")]
    if len(slides) > MAX_SLIDES:
        raise FileTooLarge(f"The presentation has more than {MAX_SLIDES:,} slides.")
    parts = archive.related(name)
    blocks.pages = len(slides)
    for number, slide in enumerate(slides, start=1):
        blocks.page = number
        _, part = parts.get(slide, ("", ""))
        if part in archive:
            _read_slide(archive, part, blocks)


def _read_slide(archive: Archive, name: str, blocks: BlockCollector) -> None:
    slide = archive.xml(name)
    titled = [shape for shape in _shapes(slide) if _placeholder(shape) in _TITLES]
    for shape in titled:
        blocks.heading(" ".join(_text(each) for each in shape.iter(f"{_A}p")), 1)
    for shape in _shapes(slide):
        if shape.tag == f"{_P}graphicFrame":
            for table in shape.iter(f"{_A}tbl"):
                blocks.table(_rows(table))
        elif shape not in titled and _placeholder(shape) not in _IGNORED:
            _read_text(shape, blocks)
    for kind, target in archive.related(name).values():
        if kind == "notesSlide" and target in archive:
            for shape in _shapes(archive.xml(target)):
                if _placeholder(shape) == "body":
                    _read_text(shape, blocks)


def _read_text(shape: etree._Element, blocks: BlockCollector) -> None:
    """Read the paragraphs of a shape: a list if it has several."""
    paragraphs = [each for each in shape.iter(f"{_A}p") if not _text(each).isspace() and _text(each)]
    for paragraph in paragraphs:
        if len(paragraphs) > 1:
            blocks.list_item(_text(paragraph), _depth(paragraph))
        else:
            blocks.paragraph(_text(paragraph))
    blocks.end_list()


def _shapes(slide: etree._Element) -> Iterator[etree._Element]:
    """Yield the shapes with texts and the frames with tables, also those in groups, in drawing order."""
    for shape in slide.iter(f"{_P}sp", f"{_P}graphicFrame"):
        if not any(each.tag == _FALLBACK for each in shape.iterancestors()):
            yield shape


def _placeholder(shape: etree._Element) -> str:
    found = next(shape.iter(f"{_P}ph"), None)
    return "" if found is None else attribute(found, "type") or "body"


def _rows(table: etree._Element) -> Iterator[list[str]]:
    for row in table.iter(f"{_A}tr"):
        yield ["\n".join(_text(each) for each in cell.iter(f"{_A}p")) for cell in row.iter(f"{_A}tc")]


def _text(paragraph: etree._Element) -> str:
    return "".join("\n" if each.tag == f"{_A}br" else each.text or "" for each in paragraph.iter(f"{_A}t", f"{_A}br"))


def _depth(paragraph: etree._Element) -> int:
    properties = paragraph.find(f"{_A}pPr")
    level = "" if properties is None else attribute(properties, "lvl")
    return int(level) if level in ("1", "2", "3", "4", "5", "6", "7", "8") else 0
