"""Scanned pages that could not be read are named with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from documents.parsing import scans as scans_module
from documents.parsing.block_collector import BlockCollector
from documents.parsing.scans import ImageTooLarge, Scans
from documents.parsing.tesseract import GreyImage, PageTimeout, Tesseract

BLANK = GreyImage(b"\xff" * 9, 3, 3, 3, 0)
WORD = "<span class='ocrx_word' title='bbox 0 0 9 9; x_wconf {}'>frog</span>"
HOCR = "<div><span class='ocr_line' title='bbox 0 0 9 9; baseline 0 0; x_size 9'>{}</span></div>"


class Engine:
    """Recognises text like Tesseract, as the test says."""

    def __init__(self, recognise: Callable[[], str]) -> None:
        self._recognise = recognise
        self.seconds: list[float] = []

    def recognise(self, _image: GreyImage, seconds: float) -> bytes:
        self.seconds.append(seconds)
        return self._recognise().encode()


def slow() -> str:
    raise PageTimeout


def too_large() -> GreyImage:
    raise ImageTooLarge


def warnings(scans: Scans, pages: int) -> tuple[str, ...]:
    blocks = BlockCollector()
    scans.warn(blocks, pages)
    return blocks.document().warnings


def test_text_is_recognised() -> None:
    engine = Engine(lambda: HOCR.format(WORD.format(90)))
    scans = Scans(cast(Tesseract, engine), 50.0)
    assert [line.text for number in (2, 3) for line in scans.read(number, lambda: BLANK)] == ["frog", "frog"]
    assert (scans.found, scans.recognised, warnings(scans, 3)) == ([2, 3], 2, ())
    assert engine.seconds == [scans_module.PAGE_SECONDS] * 2


@pytest.mark.parametrize(
    ("recognise", "image", "reason"),
    [
        (lambda: HOCR.format(""), lambda: BLANK, "no text was found"),
        (lambda: HOCR.format(WORD.format(40)), lambda: BLANK, "their text is not clear enough"),
        (slow, lambda: BLANK, "recognising their text takes longer than 30 s a page"),
        (slow, too_large, "their images are too large"),
    ],
)
def test_reasons(recognise: Callable[[], str], image: Callable[[], GreyImage], reason: str) -> None:
    scans = Scans(cast(Tesseract, Engine(recognise)), 50.0)
    assert [scans.read(number, image) for number in (1, 2, 4)] == [[], [], []]
    assert (scans.recognised, scans.found) == (0, [1, 2, 4])
    assert warnings(scans, 9) == (f"Scanned, and not read because {reason}: pages 1-2, 4 of 9.",)


def test_no_page_begins_after_the_time_of_the_file() -> None:
    engine = Engine(slow)
    scans = Scans(cast(Tesseract, engine), 0.0)
    assert scans.read(1, too_large) == []
    late = "recognising the text of all pages takes longer than it may"
    assert (engine.seconds, warnings(scans, 1)) == ([], (f"Scanned, and not read because {late}: page 1 of 1.",))


def test_without_an_engine_pages_are_counted() -> None:
    scans = Scans(None, 50.0)
    assert warnings(scans, 1) == ()
    assert scans.read(1, too_large) == scans.read(3, too_large) == []
    assert warnings(scans, 3) == ("Scanned without text, and not read: pages 1, 3 of 3.",)
