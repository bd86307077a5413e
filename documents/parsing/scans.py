"""Recognises the text of a file's scanned pages, within a limit on its time, and notes which pages were not read."""

from __future__ import annotations

import time
from collections.abc import Callable

from documents.parsing.block_collector import BlockCollector
from documents.parsing.hocr import UnclearText, read_lines
from documents.parsing.page_names import page_names
from documents.parsing.pdf_layout import Line
from documents.parsing.tesseract import GreyImage, PageTimeout, Tesseract

MAX_PIXELS = 12_000_000
"""Pixels of the image in which the text of one page is recognised, at most: A4 at 350 dots per inch."""
MAX_SIDE = 16_000
"""Pixels of the longer side of that image, at most."""
PAGE_SECONDS = 30.0
"""CPU time of recognising one page, at most."""
_USUAL_DPI = 300
"""Pixels per inch by which the places of text in an image of unknown resolution are counted."""
_NO_TEXT = "no text was found"
_UNCLEAR = "their text is not clear enough"
_SLOW = f"recognising their text takes longer than {PAGE_SECONDS:.0f} s a page"
_LATE = "recognising the text of all pages takes longer than it may"
_LARGE = "their images are too large"


class ImageTooLarge(Exception):
    """Raised when the image of a page has more pixels than are read."""


class Scans:
    """The pages of one file that are images of text.

    `engine` recognises their text for `seconds` of CPU time; without an engine the pages are only counted.

    Attributes:
        found: numbers of the scanned pages, in order.
        recognised: number of pages whose text was recognised.
    """

    def __init__(self, engine: Tesseract | None, seconds: float) -> None:
        self.engine = engine
        self.found: list[int] = []
        self.recognised = 0
        self._ends_at = time.process_time() + seconds
        self._unread: dict[str, list[int]] = {}

    def read(self, number: int, image: Callable[[], GreyImage]) -> list[Line]:
        """Return the text of scanned page `number`, recognised in its image; none if it could not be recognised.

        `image` renders the image, and may raise `ImageTooLarge`.
        """
        self.found.append(number)
        if self.engine is None:
            return []
        reason = _LATE
        left = self._ends_at - time.process_time()
        if left > 0:
            try:
                page = image()
                hocr = self.engine.recognise(page, min(left, PAGE_SECONDS))
                lines = read_lines(hocr, height=page.height, dpi=page.dpi or _USUAL_DPI)
                if lines:
                    self.recognised += 1
                    return lines
                reason = _NO_TEXT
            except ImageTooLarge:
                reason = _LARGE
            except UnclearText:
                reason = _UNCLEAR
            except PageTimeout:
                reason = _SLOW if time.process_time() < self._ends_at else _LATE
        self._unread.setdefault(reason, []).append(number)
        return []

    def warn(self, blocks: BlockCollector, pages: int) -> None:
        """Warn of the scanned pages that were not read, of the `pages` of the file."""
        if self.engine is None:
            if self.found:
                blocks.warn(f"Scanned without text, and not read: {page_names(self.found)} of {pages}.")
            return
        for reason, numbers in self._unread.items():
            blocks.warn(f"Scanned, and not read because {reason}: {page_names(numbers)} of {pages}.")
