"""Pages of PDF files are rendered at the resolution that their text needs, within limits."""

from __future__ import annotations

import pypdfium2
import pytest
from PIL import Image

from documents.parsing.pdf_image import MAX_IMAGE_PIXELS, has_image, render
from documents.parsing.scans import MAX_PIXELS, MAX_SIDE, ImageTooLarge
from documents.parsing.tesseract import GreyImage
from tests.documents.parsing.files import Text, pdf
from tests.documents.parsing.scanned import saved


def rendered(width: int, height: int, resolution: float) -> GreyImage:
    """The page of a scan of that many pixels, white with a black upper half, at that many dots per inch."""
    image = Image.new("L", (width, height), 255)
    image.paste(0, (0, 0, width, height // 2))
    return render(pypdfium2.PdfDocument(saved(image, "PDF", resolution=resolution))[0])


@pytest.mark.parametrize(
    ("width", "height", "resolution", "shown", "dpi"),
    [
        (827, 1169, 100, (2481, 3507), 300),  # A4
        (4960, 7016, 600, (2480, 3508), 300),
        (2480, 3508, 72, (2913, 4120), 85),  # a pixel for each point
        (2480, 3508, 3000, (2480, 3508), 3000),  # a page of the size of a stamp
        (3, 3, 72, (13, 13), 300),
    ],
)
def test_the_resolution_fits_the_page(
    width: int, height: int, resolution: float, shown: tuple[int, int], dpi: int
) -> None:
    found = rendered(width, height, resolution)
    assert (found.width, found.height) == pytest.approx(shown, rel=0.01, abs=1)
    assert found.dpi == pytest.approx(dpi, rel=0.01)
    assert found.width * found.height <= 1.01 * MAX_PIXELS
    pixels, middle = bytes(found.pixels), found.width // 2
    assert pixels[middle] < 9
    assert pixels[(found.height - 1) * found.stride + middle] > 240


def test_long_pages_have_a_longest_side() -> None:
    assert rendered(10, 14_000, 72).height == pytest.approx(MAX_SIDE, abs=2)


def test_huge_images_are_not_decoded() -> None:
    with pytest.raises(ImageTooLarge):
        rendered(10_000, MAX_IMAGE_PIXELS // 10_000 + 1, 300)


def test_pages_without_images_are_told_from_scans() -> None:
    assert not has_image(pypdfium2.PdfDocument(pdf([Text("frog", 72, 700)]))[0])
    assert has_image(pypdfium2.PdfDocument(saved(Image.new("L", (9, 9)), "PDF"))[0])
