"""Renders pages of PDF files as grey images, within limits on their pixels, so that their text can be recognised."""

from __future__ import annotations

import math

import pypdfium2
from pypdfium2 import raw

from documents.parsing.scans import MAX_PIXELS, MAX_SIDE, ImageTooLarge
from documents.parsing.tesseract import GreyImage

MAX_IMAGE_PIXELS = 100_000_000
"""Pixels of the images of one page, at most; PDFium inflates them in memory."""
RESOLUTION = 300.0
"""Pixels per inch of a rendered page, unless its size in points is no size of paper."""
_PAPER_PIXELS = 8_700_000
"""Pixels of A4 paper at `RESOLUTION`, up to which pages of fewer points have the resolution of their images."""
_POINTS_PER_INCH = 72.0
_DEPTH = 3
"""Levels of forms within which images of a page are looked for."""


def has_image(page: pypdfium2.PdfPage) -> bool:
    """Return whether a page has an image."""
    return next(page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=_DEPTH), None) is not None


def render(page: pypdfium2.PdfPage) -> GreyImage:
    """Return a page as an image of at most `MAX_PIXELS`.

    Raises:
        ImageTooLarge: the images of the page have more than `MAX_IMAGE_PIXELS`.
        PdfiumError: the page can't be rendered.
    """
    pixels = 0
    for image in page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=_DEPTH):
        width, height = image.get_px_size()
        pixels += width * height
        if pixels > MAX_IMAGE_PIXELS:
            raise ImageTooLarge
    page_width, page_height = page.get_size()
    scale = _scale(page_width, page_height, pixels)
    bitmap = page.render(scale=scale, grayscale=True)
    return GreyImage(
        memoryview(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride, round(scale * _POINTS_PER_INCH)
    )


def _scale(width: float, height: float, image_pixels: int) -> float:
    """Return the pixels per point at which a page of `width` by `height` points is rendered."""
    width, height = max(width, 1.0), max(height, 1.0)
    area = width * height
    paper = math.sqrt(min(image_pixels, _PAPER_PIXELS) / area)
    wanted = max(RESOLUTION / _POINTS_PER_INCH, paper)
    return min(wanted, math.sqrt(MAX_PIXELS / area), MAX_SIDE / max(width, height))
