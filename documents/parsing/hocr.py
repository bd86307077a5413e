"""Makes lines with places, as `pdf_layout` takes them, of the text that Tesseract has recognised (hOCR)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from lxml import etree

from documents.parsing.pdf_layout import Line, Word, lines_of_words
from documents.parsing.xml_trees import attribute, parse_xml

MIN_CONFIDENCE = 30
"""Confidence of a word in percent, at least; less certain ones are drawings and stains as a rule."""
MIN_PAGE_CONFIDENCE = 50
"""Mean confidence of a page's words in percent, at least."""
_BODY_SIZE = 1.25
"""Height of a line relative to the median of its page up to which it has the size of the text.

Recognised heights differ from line to line by the letters that a line has.
"""
_LARGE_STEP = 2.0
"""Points that the heights of larger lines are rounded to."""
_LINES = frozenset({"ocr_line", "ocr_header", "ocr_caption", "ocr_textfloat"})
_PROPERTY = re.compile(r"([a-z_]+)((?: -?[0-9.]+)+)")


class UnclearText(Exception):
    """Raised when the words of a page are recognised with little confidence, as in photographs and noise."""


def read_lines(hocr: bytes, *, height: int, dpi: float) -> list[Line]:
    """Return the recognised lines of a page in reading order, with places in points; none on a page without text.

    `height` is that of the image in pixels, `dpi` its pixels per inch.

    Raises:
        UnclearText: the words are recognised with less confidence than `MIN_PAGE_CONFIDENCE`.
    """
    root = parse_xml(hocr)
    confidences = [_confidence(each) for each in root.iter() if attribute(each, "class") == "ocrx_word"]
    if confidences and sum(confidences) < MIN_PAGE_CONFIDENCE * len(confidences):
        raise UnclearText
    lines = [_recognised_line(each) for each in root.iter() if attribute(each, "class") in _LINES]
    sizes = [line.size for line in lines for _ in line.words]
    if not sizes:
        return []
    scale, body = 72.0 / dpi, median(sizes)

    def words() -> Iterator[Word]:
        for line in lines:
            bottom = (height - line.lowest) * scale
            top = bottom + _line_height(line.size, body, scale)
            for text, left, right in line.words:
                yield Word(text, left * scale, right * scale, top, bottom)

    return lines_of_words(words())


class _RecognisedLine(NamedTuple):
    """A line with places in pixels of the image, from its upper left corner."""

    words: list[tuple[str, float, float]]
    """Text, left and right edge of each word."""
    lowest: float
    """Lower edge of the line's descenders, whether it has such letters or not."""
    size: float
    """Height of the line from descenders to ascenders."""


def _recognised_line(line: etree._Element) -> _RecognisedLine:
    properties = _properties(line)
    left, top, right, bottom = properties.get("bbox", (0.0, 0.0, 0.0, 0.0))
    slope, offset = properties.get("baseline", (0.0, 0.0))
    size = properties.get("x_size", (bottom - top,))[0]
    depth = properties.get("x_descenders", (0.0,))[0]
    words = []
    for word in line.iter():
        if attribute(word, "class") == "ocrx_word" and _confidence(word) >= MIN_CONFIDENCE:
            text = "".join(word.itertext()).strip()
            if text:
                first, _, last, _ = _properties(word)["bbox"]
                words.append((text, first, last))
    return _RecognisedLine(words, bottom + slope * (right - left) / 2 + offset + depth, max(size, 1.0))


def _line_height(size: float, body: float, scale: float) -> float:
    """Return the height in points of a line of `size` pixels on a page whose text has the size `body`."""
    if size <= body * _BODY_SIZE:
        return body * scale
    return max(round(size * scale / _LARGE_STEP) * _LARGE_STEP, body * scale * _BODY_SIZE)


def _confidence(word: etree._Element) -> float:
    return _properties(word).get("x_wconf", (0.0,))[0]


def _properties(element: etree._Element) -> dict[str, tuple[float, ...]]:
    """Return the numbers of an hOCR element by name, such as `bbox` and `x_size`."""
    title = attribute(element, "title")
    return dict(_numbers(title))


def _numbers(title: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    for part in title.split(";"):
        if (found := _PROPERTY.fullmatch(part.strip())) is not None:
            yield found[1], tuple(map(float, found[2].split()))
