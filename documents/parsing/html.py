"""Reads the visible blocks of HTML and XHTML documents: headings, paragraphs, lists, tables and preformatted text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from documents.parsing.block_collector import BlockCollector
from documents.parsing.text_decoding import decode_markup
from documents.parsing.text_file import read_bytes
from documents.parsing.xml_trees import parse_html

_UNREAD = frozenset({
    "applet", "audio", "button", "canvas", "datalist", "dialog", "embed", "footer", "form", "head", "iframe", "input",
    "map", "math", "menu", "nav", "noscript", "object", "script", "select", "style", "svg", "template", "textarea",
    "title", "video",
})  # fmt: skip
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "header", "hr", "html", "li", "main", "ol", "p", "section", "summary", "ul",
})  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ol", "ul"})
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?\s*(?:;|$|!)"
    r"|font-size\s*:\s*0(?:\.0+)?\s*(?:px|em|rem|pt|%)?\s*(?:;|$|!)",
    re.IGNORECASE,
)


def read(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read the HTML document `file`."""
    read_html(decode_markup(read_bytes(file)), blocks)


def read_html(text: str, blocks: BlockCollector) -> None:
    """Read the visible blocks of an HTML document, or of a fragment of one; set the title if there is none yet."""
    root = parse_html(_without_declaration(text))
    if root is None:
        return
    blocks.title = blocks.title or _title(root)
    _Walk(blocks).element(root)
    blocks.end_list()


def _without_declaration(text: str) -> str:
    """Return `text` without an XML declaration, whose encoding would be believed, and without NUL characters."""
    return re.sub(r"^\s*<\?xml[^>]*>", "", text.lstrip("\ufeff"), count=1).replace("\0", "")


def _title(root: etree._Element) -> str:
    found = next(root.iter("title"), None)
    return "".join(found.itertext()) if found is not None else ""


class _Walk:
    """Walks a tree; the text of inline elements gathers until a block element begins or ends."""

    def __init__(self, blocks: BlockCollector) -> None:
        self._blocks = blocks
        self._inline: list[str] = []
        self._depth = 0
        """Lists that are open."""
        self._marker = ""
        """Marker of the list's item that is open; empty outside of items."""

    def element(self, element: etree._Element) -> None:
        """Read an element with what is in it; the parser bounds the depth."""
        tag = _tag(element)
        if tag in _UNREAD or _is_hidden(element):
            return
        if tag in _HEADINGS:
            self._flush()
            self._blocks.heading(_text(element), _HEADINGS[tag])
        elif tag == "table" and not _is_layout(element):
            self._flush()
            self._blocks.table(_rows(element))
        elif tag == "pre":
            self._flush()
            self._blocks.code(_text(element))
        elif tag == "br":
            self._inline.append("\n")
        elif tag in _LISTS:
            self._list(element, numbered=tag == "ol")
        elif tag in _BLOCKS or tag in ("table", "thead", "tbody", "tfoot", "tr", "td", "th"):
            self._flush()
            self._children(element)
            self._flush()
        else:
            self._children(element)

    def _children(self, element: etree._Element) -> None:
        self._inline.append(element.text or "")
        for child in element:
            self.element(child)
            self._inline.append(child.tail or "")

    def _list(self, element: etree._Element, *, numbered: bool) -> None:
        self._flush()
        self._depth += 1
        outer, number = self._marker, 0
        for child in element:
            if _tag(child) == "li" and not _is_hidden(child):
                number += 1
                self._marker = f"{number}." if numbered else "-"
                self._children(child)
                self._flush()
                self._marker = outer
            else:
                self.element(child)
        self._depth -= 1
        if not self._depth:
            self._blocks.end_list()

    def _flush(self) -> None:
        text = "".join(self._inline)
        self._inline.clear()
        if not text or text.isspace():
            return
        if self._marker:
            self._blocks.list_item(text, self._depth - 1, self._marker)
        else:
            self._blocks.paragraph(text)


def _tag(element: etree._Element) -> str:
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def _is_hidden(element: etree._Element) -> bool:
    return (
        "hidden" in element.attrib
        or element.get("aria-hidden") == "true"
        or bool(_HIDDEN_STYLE.search(element.get("style") or ""))
    )


def _is_layout(table: etree._Element) -> bool:
    """Return whether a table only places other blocks on a page."""
    return any(each is not table for each in table.iter("table", *_HEADINGS, *_LISTS, "pre"))


def _visible_text(element: etree._Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if _tag(child) not in _UNREAD and not _is_hidden(child):
            if _tag(child) in _BLOCKS or _tag(child) == "br":
                yield "\n"
            yield from _visible_text(child)
            if _tag(child) in _BLOCKS:
                yield "\n"
        yield child.tail or ""


def _text(element: etree._Element) -> str:
    return "".join(_visible_text(element))


def _rows(table: etree._Element) -> Iterator[list[str]]:
    for row in table.iter("tr"):
        if not _is_hidden(row):
            yield [_text(cell) for cell in row if _tag(cell) in ("td", "th") and not _is_hidden(cell)]
