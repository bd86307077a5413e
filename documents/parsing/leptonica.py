"""Binds the C interface of Leptonica, the image library that Tesseract is linked with, to decode images in memory."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from documents.errors import DamagedFile
from documents.parsing.exif import orientation
from documents.parsing.scans import MAX_PIXELS, MAX_SIDE, ImageTooLarge
from documents.parsing.tesseract import GreyImage

MAX_IMAGE_PIXELS = 60_000_000
"""Pixels of an image, at most, before it is reduced to `scans.MAX_PIXELS`."""
MIN_PIXELS = 1_500_000
"""Pixels below which an image, such as a picture of a screen, is enlarged to twice its width and height."""
_QUARTER_TURNS = {3: 2, 6: 1, 8: 3}
"""Clockwise turns by 90 degrees that put an image upright, by the orientation that EXIF names."""
_RESOLUTIONS = range(150, 1201)
"""Pixels per inch that scanners write to images; others say nothing about the size of letters."""
_TIFF = (b"II*\0", b"MM\0*")


class ImageFile:
    """An image file in memory: PNG, JPEG, or TIFF of one or more pages.

    `library` is a library whose symbols include Leptonica's (`Tesseract.library`).
    """

    def __init__(self, library: ctypes.CDLL, content: bytes) -> None:
        _declare(library)
        self._library = library
        self._content = content
        self._is_tiff = content.startswith(_TIFF)

    def count_pages(self, most: int) -> int:
        """Return the number of pages, which is 1 in other formats than TIFF; `most` if there are more.

        Raises:
            DamagedFile: the header can't be read.
        """
        self._size(1)
        if not self._is_tiff:
            return 1
        count = 1
        while count < most and self._header(count + 1) is not None:
            count += 1
        return count

    def page(self, number: int) -> GreyImage:
        """Return a page upright as a grey image of at most `MAX_PIXELS`.

        Raises:
            ImageTooLarge: the page has more than `MAX_IMAGE_PIXELS`.
            DamagedFile: the page can't be decoded.
        """
        width, height = self._size(number)
        if width * height > MAX_IMAGE_PIXELS:
            raise ImageTooLarge
        scale = 2.0 if width * height < MIN_PIXELS else 1.0
        scale = min(scale, math.sqrt(MAX_PIXELS / (width * height)), MAX_SIDE / max(width, height))
        turns = 0 if self._is_tiff else _QUARTER_TURNS.get(orientation(self._content), 0)
        library = self._library
        with ExitStack() as images:

            def kept(pointer: int | None) -> int:
                return images.enter_context(self._image(pointer))

            opaque = kept(library.pixRemoveAlpha(kept(self._decoded(number))))
            grey = kept(library.pixConvertTo8(opaque, 0))
            scaled = grey if scale == 1.0 else kept(library.pixScale(grey, scale, scale))
            upright = kept(library.pixRotateOrth(scaled, turns)) if turns else scaled
            return _grey_image(library, upright)

    def _size(self, number: int) -> tuple[int, int]:
        size = self._header(number)
        if size is None or min(size) < 1:
            raise DamagedFile("The file is damaged: its image can't be read.")
        return size

    def _header(self, number: int) -> tuple[int, int] | None:
        """Return width and height of a page in pixels; `None` if there is no such page, or its header is damaged."""
        width, height, *others = (ctypes.c_int() for _ in range(6))
        results = [ctypes.byref(each) for each in (width, height, *others)]
        if self._is_tiff:
            failed = self._library.readHeaderMemTiff(self._content, len(self._content), number - 1, *results, None)
        else:
            file_format = ctypes.byref(ctypes.c_int())
            failed = self._library.pixReadHeaderMem(self._content, len(self._content), file_format, *results[:5])
        return None if failed else (width.value, height.value)

    def _decoded(self, number: int) -> int | None:
        if self._is_tiff:
            decoded: int | None = self._library.pixReadMemTiff(self._content, len(self._content), number - 1)
        else:
            decoded = self._library.pixReadMem(self._content, len(self._content))
        return decoded

    @contextmanager
    def _image(self, pointer: int | None) -> Iterator[int]:
        """Free an image of Leptonica's at the end of the block; raise `DamagedFile` if there is none."""
        if not pointer:
            raise DamagedFile("The file is damaged: its image can't be read.")
        try:
            yield pointer
        finally:
            self._library.pixDestroy(ctypes.byref(ctypes.c_void_p(pointer)))


def _grey_image(library: ctypes.CDLL, image: int) -> GreyImage:
    """Return a copy of an image of 8 bits per pixel, four of which Leptonica keeps in an integer of 32 bits."""
    if sys.byteorder == "little":
        library.pixEndianByteSwap(image)
    height, stride = library.pixGetHeight(image), 4 * library.pixGetWpl(image)
    dpi = library.pixGetXRes(image)
    pixels = ctypes.string_at(library.pixGetData(image), stride * height)
    return GreyImage(pixels, library.pixGetWidth(image), height, stride, dpi if dpi in _RESOLUTIONS else 0)


def _declare(library: ctypes.CDLL) -> None:
    """Declare the results and arguments of functions that are no plain integers."""
    image, content, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    integer, real = ctypes.c_int, ctypes.c_float
    result = ctypes.POINTER(integer)
    for name, returned, arguments in (
        ("pixReadHeaderMem", integer, [content, size, *[result] * 6]),
        ("readHeaderMemTiff", integer, [content, size, integer, *[result] * 7]),
        ("pixReadMem", image, [content, size]),
        ("pixReadMemTiff", image, [content, size, integer]),
        ("pixRemoveAlpha", image, [image]),
        ("pixConvertTo8", image, [image, integer]),
        ("pixScale", image, [image, real, real]),
        ("pixRotateOrth", image, [image, integer]),
        ("pixEndianByteSwap", integer, [image]),
        ("pixGetData", image, [image]),
        ("pixGetWpl", integer, [image]),
        ("pixGetWidth", integer, [image]),
        ("pixGetHeight", integer, [image]),
        ("pixGetXRes", integer, [image]),
        ("pixDestroy", None, [ctypes.POINTER(image)]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = returned, arguments
