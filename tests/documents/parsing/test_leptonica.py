"""Images are decoded in memory, upright and grey, within limits on their pixels."""

from __future__ import annotations

import ctypes

import pytest
from PIL import Image

from documents.errors import DamagedFile
from documents.parsing.leptonica import MAX_IMAGE_PIXELS, ImageFile
from documents.parsing.scans import MAX_PIXELS, MAX_SIDE, ImageTooLarge
from documents.parsing.tesseract import LIBRARY, GreyImage
from tests.documents.parsing.scanned import require_tesseract, saved

LARGE = (2000, 1000)
"""Pixels of an image that is not enlarged."""
NO_PALETTE = ("JPEG", "P")
HALVES = Image.new("L", LARGE, 255)
HALVES.paste(0, (0, 0, 1000, 1000))


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    require_tesseract()
    return ctypes.CDLL(LIBRARY)


def corners(image: GreyImage) -> list[int]:
    """Brightness near the upper left, upper right, lower left and lower right corner."""
    pixels = bytes(image.pixels)
    return [pixels[y * image.stride + x] for y in (9, image.height - 9) for x in (9, image.width - 9)]


@pytest.mark.parametrize(
    ("image_format", "mode"),
    [(each, mode) for each in ("PNG", "JPEG", "TIFF") for mode in ("1", "L", "P", "RGB") if (each, mode) != NO_PALETTE],
)
def test_formats_and_depths(library: ctypes.CDLL, image_format: str, mode: str) -> None:
    found = ImageFile(library, saved(HALVES.convert(mode), image_format, dpi=(200, 200))).page(1)
    assert (found.width, found.height, found.dpi) == (*LARGE, 200)
    assert corners(found) == [0, 255, 0, 255]


def test_what_is_transparent_is_white(library: ctypes.CDLL) -> None:
    image = Image.new("RGBA", LARGE, (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 1000, 1000))
    assert corners(ImageFile(library, saved(image, "PNG")).page(1)) == [0, 255, 0, 255]


@pytest.mark.parametrize(("turned", "expected"), [(1, [0, 255, 0, 255]), (3, [255, 0, 255, 0]), (6, [0, 0, 255, 255])])
def test_photographs_are_put_upright(library: ctypes.CDLL, turned: int, expected: list[int]) -> None:
    exif = Image.Exif()
    exif[0x0112] = turned
    assert corners(ImageFile(library, saved(HALVES, "JPEG", exif=exif)).page(1)) == expected


def test_pages_of_a_tiff(library: ctypes.CDLL) -> None:
    pages = [Image.new("L", LARGE, 50 * number) for number in range(1, 5)]
    image = ImageFile(library, saved(pages[0], "TIFF", pages[1:]))
    assert (image.count_pages(9), image.count_pages(2)) == (4, 2)
    assert [corners(image.page(number))[0] for number in (4, 2)] == [200, 100]


@pytest.mark.parametrize(("size", "shown"), [((600, 400), (1200, 800)), ((1, 9_000), (2, MAX_SIDE)), ((1, 1), (2, 2))])
def test_small_images_are_enlarged(library: ctypes.CDLL, size: tuple[int, int], shown: tuple[int, int]) -> None:
    found = ImageFile(library, saved(Image.new("L", size), "PNG")).page(1)
    assert (found.width, found.height) == pytest.approx(shown, abs=1)
    assert found.dpi == 0


def test_large_images_are_reduced(library: ctypes.CDLL) -> None:
    found = ImageFile(library, saved(Image.new("L", (7000, 7000)), "PNG")).page(1)
    assert 0.99 * MAX_PIXELS < found.width * found.height <= 1.01 * MAX_PIXELS


@pytest.mark.parametrize("image_format", ["PNG", "TIFF"])
def test_huge_images_are_refused_by_their_header(library: ctypes.CDLL, image_format: str) -> None:
    image = ImageFile(library, saved(Image.new("1", (10_000, MAX_IMAGE_PIXELS // 10_000 + 1)), image_format))
    with pytest.raises(ImageTooLarge):
        image.page(1)


@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "TIFF"])
@pytest.mark.parametrize("length", [8, 30, 200])
def test_damaged_images_are_refused(library: ctypes.CDLL, image_format: str, length: int) -> None:
    image = ImageFile(library, saved(HALVES, image_format)[:length])
    with pytest.raises(DamagedFile):
        image.page(image.count_pages(9))
