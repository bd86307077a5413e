"""Extracts the title and visible text of an HTML document; outside documents only in a sandboxed process.

The parser of the standard library needs quadratic time for some malformed documents, so documents from outside are read
in a sandbox only (`page_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import BinaryIO

MAX_DEPTH = 2000
MAX_TITLE = 300
MIN_MAIN = 200
"""Characters that the main element of a document must have; otherwise the whole body is taken."""

_VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
})  # fmt: skip
_UNREAD = frozenset({
    "applet", "audio", "button", "canvas", "datalist", "dialog", "footer", "form", "iframe", "map", "math", "menu",
    "nav", "noscript", "object", "script", "select", "style", "svg", "template", "textarea", "video",
})  # fmt: skip
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre",
    "section", "summary", "table", "td", "th", "tr", "ul",
})  # fmt: skip
_CLOSED_BY_NEXT = frozenset({"dd", "dt", "li", "option", "p", "td", "th", "tr"})
"""Elements whose end tag may be left out before the next one."""
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?\s*(?:;|$|!)"
    r"|font-size\s*:\s*0(?:\.0+)?\s*(?:px|em|rem|pt|%)?\s*(?:;|$|!)",
    re.IGNORECASE,
)


class _Reader(HTMLParser):
    """Collects the title, the visible text of the body, and that of its main element."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.body: list[str] = []
        self.main: list[str] = []
        self._open: list[tuple[str, bool]] = []
        """Open elements, and whether each is the first of the elements that hide its text."""
        self._hidden = 0
        self._mains = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note that an HTML element begins: it may start a line, hide its text, or be the document's main element."""
        if tag in _BLOCKS:
            self._add("\n")
        last = self._open[-1][0] if self._open else ""
        if last in _CLOSED_BY_NEXT and (last == tag or (last == "p" and tag in _BLOCKS)):
            self.handle_endtag(last)
        if tag in _VOID or len(self._open) >= MAX_DEPTH:
            return
        hides = tag in _UNREAD or _is_hidden(dict(attrs))
        self._open.append((tag, hides))
        self._hidden += hides
        self._mains += tag in ("main", "article")

    def handle_endtag(self, tag: str) -> None:
        """Note that an HTML element ends."""
        if not any(name == tag for name, _ in self._open):
            return
        while self._open:
            name, hides = self._open.pop()
            self._hidden -= hides
            self._mains -= name in ("main", "article")
            if name == tag:
                break
        if tag in _BLOCKS:
            self._add("\n")

    def handle_data(self, data: str) -> None:
        """Collect a piece of the document's text, unless it is hidden."""
        if any(name == "title" for name, _ in self._open[-1:]) and not self._hidden:
            self.title.append(data)
        elif not any(name == "head" for name, _ in self._open[:2]):
            self._add(data)

    def _add(self, text: str) -> None:
        if self._hidden:
            return
        self.body.append(text)
        if self._mains:
            self.main.append(text)


def _is_hidden(attributes: dict[str, str | None]) -> bool:
    style = attributes.get("style") or ""
    return "hidden" in attributes or attributes.get("aria-hidden") == "true" or bool(_HIDDEN_STYLE.search(style))


def title_and_text(document: str) -> tuple[str, str]:
    """Return the title and the visible text of the HTML `document`, with one line for each paragraph.

    Scripts, styles, forms and hidden elements are left out. Parse outside documents in a sandboxed process only.
    """
    reader = _Reader()
    reader.feed(document)
    reader.close()
    body, main = _lines(reader.body), _lines(reader.main)
    return " ".join("".join(reader.title).split())[:MAX_TITLE], main if len(main) >= MIN_MAIN else body


def _lines(parts: list[str]) -> str:
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line)


def work(order: bytes, source: BinaryIO) -> Iterator[bytes]:
    """Read one HTML document in the sandboxed process: yield the title and the text of the document `order`.

    It is the function that `runtime.sandbox.child` runs there (`Work`).
    """
    title, text = title_and_text(order.decode())
    yield title.encode("utf-8", "replace")
    yield text.encode("utf-8", "replace")
