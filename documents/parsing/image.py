"""Reads image files (PNG, JPEG, TIFF with one or more pages) by recognising their text."""

from __future__ import annotations

from functools import partial
from typing import BinaryIO

from documents.errors import FileTooLarge, UnsupportedFormat
from documents.parsing.block_collector import BlockCollector
from documents.parsing.leptonica import ImageFile
from documents.parsing.pdf_layout import Page, read_pages
from documents.parsing.scans import Scans

MAX_BYTES = 128 * 2**20
"""Size of an image file, at most."""
MAX_PAGES = 5000
"""Pages of a TIFF file, at most."""


def read(file: BinaryIO, blocks: BlockCollector, scans: Scans) -> None:
    """Read the image file `file`, and warn of pages whose text could not be recognised.

    Raises:
        UnsupportedFormat: no text is recognised here.
        DamagedFile: the image can't be read.
        FileTooLarge: the file is larger than `MAX_BYTES`, or has more than `MAX_PAGES`.
    """
    if scans.engine is None:
        scans.found.append(1)
        raise UnsupportedFormat("The file has a format that is not read: an image.")
    file.seek(0)
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FileTooLarge(f"The image is larger than {MAX_BYTES // 2**20} MiB.")
    image = ImageFile(scans.engine.library, content)
    count = image.count_pages(MAX_PAGES + 1)
    if count > MAX_PAGES:
        raise FileTooLarge(f"The image has more than {MAX_PAGES:,} pages.")
    blocks.pages = count
    pages = []
    for number in range(1, count + 1):
        lines = scans.read(number, partial(image.page, number))
        if lines:
            pages.append(Page(number, lines))
    read_pages(pages, blocks)
    scans.warn(blocks, count)
