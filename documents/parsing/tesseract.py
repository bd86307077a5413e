"""Binds the C interface of Tesseract's library, which recognises text in images in the calling process.

The library is called in the sandboxed parser process instead of the program `tesseract` being started, because that
process may start no program and open no file: load the library and its language data before the confinement.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

LIBRARY = "libtesseract.so.5"
DEFAULT_LANGUAGES = ("eng", "pol")
"""Languages that are recognised by default, each where its data are installed."""
_LSTM_ONLY = 1
"""Tesseract's `OEM_LSTM_ONLY`: the recogniser that Debian's language data are for."""
_AUTOMATIC_LAYOUT = 3
"""Tesseract's `PSM_AUTO`: pages are divided into columns and paragraphs."""
_STANDARD_ERROR = 2


class TesseractUnavailable(Exception):
    """Raised when Tesseract or the data of a language are not installed; the message is a sentence for people."""


class PageTimeout(Exception):
    """Raised when recognising one page took longer than it may."""


class GreyImage(NamedTuple):
    """An image of one byte for each pixel, row by row from the top, 0 is black.

    `dpi` is its resolution in pixels per inch; 0: unknown, so that Tesseract estimates it.
    """

    pixels: bytes | memoryview
    width: int
    height: int
    stride: int
    """Bytes from one row to the next."""
    dpi: int


_CancelFunction = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int)


class Tesseract:
    """Recognises text in images by Tesseract's library, with language data that are loaded once.

    `languages` are Tesseract's names of languages, joined by `+`; empty: those of `DEFAULT_LANGUAGES` that are
    installed. Attribute `library` is the loaded library, whose symbols include those of Leptonica.

    Raises:
        TesseractUnavailable: the library or the data of a named language, or of all default ones, are not installed.
    """

    def __init__(self, languages: str) -> None:
        # OpenMP's threads can't be started after the confinement. OpenMP reads this when the library is loaded.
        os.environ["OMP_THREAD_LIMIT"] = "1"
        try:
            self.library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise TesseractUnavailable(
                "An administrator can install Tesseract, which recognises text in images."
            ) from error
        _declare(self.library)
        self._handle = ctypes.c_void_p(self.library.TessBaseAPICreate())
        self._load(languages)
        self._ends_at = 0.0
        self._cancel = _CancelFunction(lambda _this, _words: time.process_time() > self._ends_at)
        self._monitor = ctypes.c_void_p(self.library.TessMonitorCreate())
        self.library.TessMonitorSetCancelFunc(self._monitor, self._cancel)

    def recognise(self, image: GreyImage, seconds: float) -> bytes:
        """Return the text of an image with its places, in the format hOCR, in UTF-8.

        `seconds` is the CPU time that it may take; Tesseract looks at it between two words.

        Raises:
            PageTimeout: it takes longer.
        """
        pixels = (ctypes.c_char * (image.stride * image.height)).from_buffer_copy(image.pixels)
        library, handle = self.library, self._handle
        library.TessBaseAPISetPageSegMode(handle, _AUTOMATIC_LAYOUT)
        library.TessBaseAPISetImage(handle, pixels, image.width, image.height, 1, image.stride)
        if image.dpi:
            library.TessBaseAPISetSourceResolution(handle, image.dpi)
        self._ends_at = time.process_time() + seconds
        try:
            if library.TessBaseAPIRecognize(handle, self._monitor) != 0:
                raise PageTimeout
            text = ctypes.c_void_p(library.TessBaseAPIGetHOCRText(handle, 0))
            try:
                return ctypes.cast(text, ctypes.c_char_p).value or b""
            finally:
                library.TessDeleteText(text)
        finally:
            library.TessBaseAPIClear(handle)

    def _load(self, languages: str) -> None:
        wanted = languages.split("+") if languages else list(DEFAULT_LANGUAGES)
        with _quiet():
            failed = self.library.TessBaseAPIInit2(self._handle, None, "+".join(wanted).encode(), _LSTM_ONLY)
        loaded = () if failed else self._loaded_languages()
        missing = [each for each in wanted if each not in loaded]
        if missing and (languages or not loaded):
            raise TesseractUnavailable(
                f"An administrator can install Tesseract's data of the language{'s' if len(missing) > 1 else ''} "
                f"{' and '.join(missing)}, by which text in images is recognised."
            )

    def _loaded_languages(self) -> tuple[str, ...]:
        names = self.library.TessBaseAPIGetLoadedLanguagesAsVector(self._handle)
        loaded: list[str] = []
        while (name := names[len(loaded)]) is not None:
            loaded.append(name.decode())
        self.library.TessDeleteTextArray(names)
        return tuple(loaded)


def _declare(library: ctypes.CDLL) -> None:
    """Declare the results and arguments of functions that are no plain integers."""
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("TessBaseAPICreate", pointer, []),
        ("TessMonitorCreate", pointer, []),
        ("TessMonitorSetCancelFunc", None, [pointer, _CancelFunction]),
        ("TessBaseAPIInit2", integer, [pointer, text, text, integer]),
        ("TessBaseAPIGetLoadedLanguagesAsVector", ctypes.POINTER(text), [pointer]),
        ("TessDeleteTextArray", None, [ctypes.POINTER(text)]),
        ("TessBaseAPISetPageSegMode", None, [pointer, integer]),
        ("TessBaseAPISetImage", None, [pointer, pointer, integer, integer, integer, integer]),
        ("TessBaseAPISetSourceResolution", None, [pointer, integer]),
        ("TessBaseAPIRecognize", integer, [pointer, pointer]),
        ("TessBaseAPIGetHOCRText", pointer, [pointer, integer]),
        ("TessDeleteText", None, [pointer]),
        ("TessBaseAPIClear", None, [pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard what Tesseract writes to standard error about language data that are not installed."""
    kept, null = os.dup(_STANDARD_ERROR), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, _STANDARD_ERROR)
        yield
    finally:
        os.dup2(kept, _STANDARD_ERROR)
        os.close(kept)
        os.close(null)
