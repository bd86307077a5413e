"""Reads DOCX files: headings by their styles, lists, tables, notes and text boxes; macros and pictures are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from lxml import etree

from documents.errors import UnsupportedFormat
from documents.parsing import open_xml
from documents.parsing.archive import Archive
from documents.parsing.block_collector import BlockCollector
from documents.parsing.xml_trees import attribute

_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_W = f"{{{_NAMESPACE}}}"
_SKIPPED = frozenset({
    f"{_W}del", f"{_W}moveFrom", f"{_W}instrText", f"{_W}delText",
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
})  # fmt: skip
_MATHEMATICS_TEXT = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
_CHARACTERS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_HEADING_NAME = re.compile(r"heading ([1-9])$", re.IGNORECASE)
_BODY_TEXT = 9
"""Outline level of text that is no heading."""
_MAX_SPAN = 60
"""Columns that a cell of a table spans, at most."""


@dataclass(frozen=True)
class _Style:
    """What a paragraph style says: its depth as a heading, 0 for none, and whether it makes items of a list."""

    level: int
    is_list: bool


_PLAIN = _Style(0, is_list=False)


def read(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read the DOCX file `file`. It has pages if a word processor has noted where they end."""
    archive = Archive(file)
    name = open_xml.main_part(archive)
    blocks.title = open_xml.title(archive)
    parts = {kind: target for kind, target in archive.related(name).values() if target in archive}
    styles = _styles(archive.xml(parts["styles"])) if "styles" in parts else {}
    notes = {
        f"{kind}Reference": _notes(archive.xml(parts[f"{kind}s"]), kind)
        for kind in ("footnote", "endnote")
        if f"{kind}s" in parts
    }
    root = archive.xml(name)
    body = root.find(f"{_W}body")
    if body is None:
        raise UnsupportedFormat("The file has the format Strict Open XML: save it as an ordinary DOCX file.")
    if next(body.iter(f"{_W}lastRenderedPageBreak"), None) is not None:
        blocks.page = 1
    _Walk(blocks, styles, notes).blocks(body)
    blocks.pages = blocks.page


class _Walk:
    def __init__(self, blocks: BlockCollector, styles: dict[str, _Style], notes: dict[str, dict[str, str]]) -> None:
        self._blocks = blocks
        self._styles = styles
        self._notes = notes

    def blocks(self, element: etree._Element) -> None:
        """Read the paragraphs and tables in an element."""
        for child in element:
            if child.tag == f"{_W}p":
                self._paragraph(child)
            elif child.tag == f"{_W}tbl":
                self._table(child)
            elif child.tag not in _SKIPPED:  # content controls, insertions, and others that wrap blocks
                self.blocks(child)

    def _paragraph(self, paragraph: etree._Element) -> None:
        text = _text(paragraph)
        style = self._style(paragraph)
        properties = paragraph.find(f"{_W}pPr")
        numbering = properties.find(f"{_W}numPr") if properties is not None else None
        if style.level:
            self._blocks.heading(text, style.level)
        elif numbering is not None or style.is_list:
            level = numbering.find(f"{_W}ilvl") if numbering is not None else None
            self._blocks.list_item(text, _number(level))
        else:
            self._blocks.paragraph(text)
        for note in self._referenced_notes(paragraph):
            self._blocks.paragraph(note)
        for box in paragraph.iter(f"{_W}txbxContent"):
            if not any(each.tag in _SKIPPED for each in box.iterancestors()):
                self.blocks(box)
        if self._blocks.page is not None:
            self._blocks.page += sum(1 for _ in paragraph.iter(f"{_W}lastRenderedPageBreak"))

    def _table(self, table: etree._Element) -> None:
        rows = [list(_inner(row, f"{_W}tc")) for row in _inner(table, f"{_W}tr")]
        if len(rows) == 1 and len(rows[0]) == 1:  # a frame around text
            self.blocks(rows[0][0])
        else:
            self._blocks.table(_cells(row) for row in rows)
        if self._blocks.page is not None:
            self._blocks.page += sum(1 for _ in table.iter(f"{_W}lastRenderedPageBreak"))

    def _style(self, paragraph: etree._Element) -> _Style:
        properties = paragraph.find(f"{_W}pPr")
        if properties is None:
            return _PLAIN
        own = properties.find(f"{_W}outlineLvl")
        if own is not None and _number(own) < _BODY_TEXT:
            return _Style(_number(own) + 1, is_list=False)
        named = properties.find(f"{_W}pStyle")
        return self._styles.get(_value(named), _PLAIN) if named is not None else _PLAIN

    def _referenced_notes(self, paragraph: etree._Element) -> Iterator[str]:
        for kind, texts in self._notes.items():
            for reference in paragraph.iter(f"{_W}{kind}"):
                yield texts.get(attribute(reference, "id", _NAMESPACE), "")


def _styles(root: etree._Element) -> dict[str, _Style]:
    """Return what each paragraph style says, with what it inherits."""
    elements = {attribute(each, "styleId", _NAMESPACE): each for each in root.iter(f"{_W}style")}
    return {name: _style(elements, name) for name in elements}


def _style(elements: dict[str, etree._Element], name: str) -> _Style:
    level, is_list = 0, False
    seen: set[str] = set()
    while name in elements and name not in seen:
        seen.add(name)
        element = elements[name]
        heading = _HEADING_NAME.match(_value(element.find(f"{_W}name")))
        outline = element.find(f"{_W}pPr/{_W}outlineLvl")
        if not level and heading is not None:
            level = int(heading[1])
        elif not level and outline is not None and _number(outline) < _BODY_TEXT:
            level = _number(outline) + 1
        elif not level and _value(element.find(f"{_W}name")).lower() == "title":
            level = 1
        is_list = is_list or element.find(f"{_W}pPr/{_W}numPr") is not None
        name = _value(element.find(f"{_W}basedOn"))
    return _Style(level, is_list=is_list)


def _notes(root: etree._Element, kind: str) -> dict[str, str]:
    return {attribute(each, "id", _NAMESPACE): _cell_text(each) for each in root.iter(f"{_W}{kind}")}


def _inner(element: etree._Element, tag: str) -> Iterator[etree._Element]:
    """Yield the children `tag` of an element, also those that a content control or a tracked change wraps."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag not in _SKIPPED and child.tag not in (f"{_W}tr", f"{_W}tc"):
            yield from _inner(child, tag)


def _cells(row: list[etree._Element]) -> list[str]:
    """Return the texts of a row's cells; a cell that spans columns has empty ones after it."""
    texts = []
    for cell in row:
        span = _number(cell.find(f"{_W}tcPr/{_W}gridSpan"), _MAX_SPAN)
        texts += [_cell_text(cell), *[""] * (span - 1)]
    return texts


def _cell_text(element: etree._Element) -> str:
    return "\n".join(_text(each) for each in element.iter(f"{_W}p"))


def _text(paragraph: etree._Element) -> str:
    """Return the text of a paragraph without that of text boxes in it."""
    parts: list[str] = []
    _gather(paragraph, parts)
    return "".join(parts)


def _gather(element: etree._Element, parts: list[str]) -> None:
    for child in element:
        if child.tag in (f"{_W}t", _MATHEMATICS_TEXT):
            parts.append(child.text or "")
        elif child.tag in _CHARACTERS:
            parts.append(_CHARACTERS[child.tag])
        elif child.tag not in _SKIPPED and child.tag not in (f"{_W}txbxContent", f"{_W}pPr"):
            _gather(child, parts)


def _value(element: etree._Element | None) -> str:
    return attribute(element, "val", _NAMESPACE) if element is not None else ""


def _number(element: etree._Element | None, most: int = _BODY_TEXT) -> int:
    value = _value(element)
    return min(int(value), most) if value.isascii() and value.isdigit() and len(value) < 4 else 0
