"""Image files are refused without text recognition, and beyond their limits."""

from __future__ import annotations

import ctypes
import io
from types import SimpleNamespace
from typing import cast

import pytest
from PIL import Image

from documents.errors import DamagedFile, FileTooLarge, UnsupportedFormat
from documents.parsing import image
from documents.parsing.block_collector import BlockCollector
from documents.parsing.scans import Scans
from documents.parsing.tesseract import LIBRARY, Tesseract
from tests.documents.parsing.scanned import require_tesseract, saved

PAGES = [Image.new("L", (9, 9)) for _ in range(3)]


def engine() -> Tesseract:
    """Tesseract's library without its recogniser."""
    require_tesseract()
    return cast(Tesseract, SimpleNamespace(library=ctypes.CDLL(LIBRARY)))


def test_without_recognition_an_image_is_refused_and_counted_as_scanned() -> None:
    scans = Scans(None, 0.0)
    with pytest.raises(UnsupportedFormat, match="an image"):
        image.read(io.BytesIO(saved(PAGES[0], "PNG")), BlockCollector(), scans)
    assert scans.found == [1]


def test_limits_of_pages_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    content = saved(PAGES[0], "TIFF", PAGES[1:])
    monkeypatch.setattr(image, "MAX_PAGES", 2)
    with pytest.raises(FileTooLarge, match="more than 2 pages"):
        image.read(io.BytesIO(content), BlockCollector(), Scans(engine(), 0.0))
    monkeypatch.setattr(image, "MAX_BYTES", 9)
    with pytest.raises(FileTooLarge, match="larger than"):
        image.read(io.BytesIO(content), BlockCollector(), Scans(engine(), 0.0))


def test_a_damaged_image_is_refused() -> None:
    with pytest.raises(DamagedFile):
        image.read(io.BytesIO(b"\x89PNG\r\n\x1a\n"), BlockCollector(), Scans(engine(), 0.0))


def test_pages_are_counted() -> None:
    blocks, scans = BlockCollector(), Scans(engine(), 0.0)
    image.read(io.BytesIO(saved(PAGES[0], "TIFF", PAGES[1:])), blocks, scans)
    assert (blocks.document().pages, scans.found) == (3, [1, 2, 3])
