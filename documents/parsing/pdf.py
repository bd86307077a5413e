"""Reads PDF files by PDFium: words with their places, from which `pdf_layout` makes blocks; scripts are not run."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

import pypdfium2
from pypdfium2 import raw

from documents.errors import DamagedFile, EncryptedFile, FileTooLarge
from documents.parsing.block_collector import MAX_CHARACTERS, BlockCollector
from documents.parsing.page_names import page_names
from documents.parsing.pdf_image import has_image, render
from documents.parsing.pdf_layout import Line, Page, Word, lines_of_words, read_pages
from documents.parsing.scans import Scans

MAX_PAGES = 5000
"""Pages of a PDF file, at most."""
_WORD = re.compile(r"\S+")


def read(file: BinaryIO, blocks: BlockCollector, scans: Scans) -> None:
    """Read the PDF file `file`, its scanned pages by `scans`, and warn of pages that could not be read.

    Raises:
        EncryptedFile: it needs a password.
        DamagedFile: it has no page that can be read.
        FileTooLarge: it has, or claims, more than `MAX_PAGES`.
    """
    file.seek(0)
    try:
        document = pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise EncryptedFile("The file is encrypted: save it without a password.") from error
        raise DamagedFile("The file is damaged: it is no complete PDF file.") from error
    if len(document) > MAX_PAGES:
        raise FileTooLarge(f"The file has {len(document):,} pages, at most {MAX_PAGES:,} are read.")
    blocks.pages = len(document)
    blocks.title = document.get_metadata_value("Title")
    pages: list[Page] = []
    damaged: list[int] = []
    characters = 0
    for number in range(1, len(document) + 1):
        try:
            page = document[number - 1]
            lines = _lines(page)
            if not lines and has_image(page):
                lines = scans.read(number, partial(render, page))
        except pypdfium2.PdfiumError:
            damaged.append(number)
            continue
        characters += sum(len(line.text) for line in lines)
        if characters > MAX_CHARACTERS:
            raise FileTooLarge(f"The file has more than {MAX_CHARACTERS:,} characters of text.")
        if lines:
            pages.append(Page(number, lines))
        page.close()
    if damaged and len(damaged) == len(document):
        raise DamagedFile("The file is damaged: none of its pages can be read.")
    read_pages(pages, blocks)
    scans.warn(blocks, len(document))
    if damaged:
        blocks.warn(f"Damaged, and not read: {page_names(damaged)} of {len(document)}.")


def _lines(page: pypdfium2.PdfPage) -> list[Line]:
    text_page = page.get_textpage()
    try:
        return lines_of_words(_words(text_page))
    finally:
        text_page.close()


def _words(page: pypdfium2.PdfTextPage) -> Iterator[Word]:
    """Yield the words of a page in the order of its content."""
    text = "".join(chr(raw.FPDFText_GetUnicode(page, index)) for index in range(page.count_chars()))
    first, last = raw.FS_RECTF(), raw.FS_RECTF()
    to_first, to_last = ctypes.byref(first), ctypes.byref(last)
    for word in _WORD.finditer(text):
        raw.FPDFText_GetLooseCharBox(page, word.start(), to_first)
        raw.FPDFText_GetLooseCharBox(page, word.end() - 1, to_last)
        left, right = min(first.left, last.left), max(first.right, last.right)
        yield Word(word[0], left, right, max(first.top, first.bottom), min(first.top, first.bottom))
