"""Lines with places are made of recognised text: letters of one size, without words that are stains."""

from __future__ import annotations

import pytest

from documents.parsing.hocr import UnclearText, read_lines

DPI = 144
"""Two pixels are a point."""


def word(text: str, left: int, right: int, confidence: int = 90) -> str:
    return f"<span class='ocrx_word' title='bbox {left} 0 {right} 9; x_wconf {confidence}'>{text}</span>"


def line(*words: str, box: str = "100 180 500 220", size: str = "; x_size 40; x_descenders 10; x_ascenders 8") -> str:
    return f"<span class='ocr_line' title=\"bbox {box}; baseline 0.01 -12{size}\">{''.join(words)}</span>"


def read(*lines: str) -> list[tuple[str, float, float]]:
    """Text, upper and lower edge of each line on a page of 1000 pixels."""
    hocr = f"<div class='ocr_page' title='bbox 0 0 800 1000'>{''.join(lines)}</div>".encode()
    return [(each.text, each.top, each.bottom) for each in read_lines(hocr, height=1000, dpi=DPI)]


def test_places_are_in_points_from_the_lower_edge() -> None:
    assert read(line(word("A", 100, 200), word("&lt;b&gt;", 210, 400))) == [("A <b>", 410.0, 390.0)]


def test_words_far_apart_are_cells() -> None:
    hocr = f"<div>{line(word('a', 100, 140), word('b', 300, 340))}</div>".encode()
    [found] = read_lines(hocr, height=1000, dpi=DPI)
    assert [(cell.text, cell.left, cell.right) for cell in found.cells] == [("a", 50.0, 70.0), ("b", 150.0, 170.0)]


def test_sizes_differ_for_headings_only() -> None:
    lines = [line(word("a", 0, 9), box=f"0 {top} 9 {top + 40}") for top in (100, 200, 300)]
    lines.append(line(word("b", 0, 9), box="0 400 9 440", size="; x_size 49; x_descenders 10"))
    lines.append(line(word("C", 0, 9), box="0 500 9 580", size="; x_size 79; x_descenders 10"))
    assert [round(top - bottom, 3) for _, top, bottom in read(*lines)] == [20.0, 20.0, 20.0, 20.0, 40.0]


def test_stains_and_empty_words_are_left_out() -> None:
    assert read(line(word("frog", 0, 40), word("~", 50, 60, 10), word(" ", 70, 80))) == [("frog", 410.0, 390.0)]


def test_a_page_without_words_has_no_lines() -> None:
    assert read() == read(line()) == read(line(word(" ", 0, 9))) == []


def test_a_page_of_unlikely_words_is_unclear() -> None:
    with pytest.raises(UnclearText):
        read(line(word("a", 0, 9, 30), word("b", 10, 20, 60), word("c", 30, 40, 20)))
