"""The content of a file decides its format; its name does so among formats that are plain text."""

from __future__ import annotations

import io
import zipfile
from functools import partial

import pytest

from documents.errors import DamagedFile, FileRefused, UnsupportedFormat
from documents.parsing import delimited, docx, epub, html, image, markdown, pdf, text_file
from documents.parsing.recognition import Reader, recognise
from documents.parsing.scans import Scans
from tests.documents.parsing import files

NO_SCANS = Scans(None, 0.0)
MARKDOWN = b"# Heading\n\ntext"


@pytest.mark.parametrize(
    ("content", "filename", "reader"),
    [
        (files.pdf([]), "a.txt", pdf.read),
        (b"\n" * 900 + files.pdf([]), "", pdf.read),
        (files.docx(""), "a.pdf", docx.read),
        (files.epub({}), "a.zip", epub.read),
        (b"<!DOCTYPE html><p>a", "a.txt", html.read),
        (b"<!-- a --><HTML lang=pl>", "", html.read),
        (b"<p>a", "a.htm", html.read),
        (b"if a < b", "a.txt", text_file.read),
        (MARKDOWN, "a.md", markdown.read),
        (MARKDOWN, "a.MD", markdown.read),
        (MARKDOWN, "../../a.py", text_file.read_code),
        (MARKDOWN, "a", text_file.read),
        (b"<!DOCTYPE html>", "a.php", text_file.read_code),
        (b"a,b", "a.csv", delimited.read),
        (b"\x89PNG\r\n\x1a\n", "a.pdf", image.read),
        (b"\xff\xd8\xff\xe0", "", image.read),
        (b"II*\0", "", image.read),
        (b"MM\0*", "", image.read),
        ("ż".encode() * 10_000, "a.txt", text_file.read),
    ],
)
def test_recognised(content: bytes, filename: str, reader: Reader) -> None:
    found = recognise(io.BytesIO(content), filename, NO_SCANS)
    assert (found.func if isinstance(found, partial) else found) is reader


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "before 2007 or with a password"),
        (b"{\\rtf1 a}", "Rich Text"),
        (b"GIF89a", "an image"),
        (b"\x1f\x8b\x08", "import the files in it"),
        (files.archive({"a.txt": "a"}), "import the files in it"),
        (files.archive({"mimetype": "application/vnd.oasis.opendocument.text"}), "OpenDocument"),
        (files.office("xl/workbook.bin", {"xl/workbook.bin": "a"}), "Office file of another kind"),
        (b"MZ\x90\0", "a program"),
        (b"a\0b", "no text"),
    ],
)
def test_other_formats_are_named(content: bytes, message: str) -> None:
    with pytest.raises(UnsupportedFormat, match=message):
        recognise(io.BytesIO(content), "a.docx", NO_SCANS)


def test_empty_files_are_refused() -> None:
    with pytest.raises(DamagedFile, match="empty"):
        recognise(io.BytesIO(), "a.txt", NO_SCANS)


@pytest.mark.parametrize("length", [4, 30, 100, 400])
def test_incomplete_archives_are_refused(length: int) -> None:
    with pytest.raises(DamagedFile):
        recognise(io.BytesIO(files.docx("")[:length]), "a.docx", NO_SCANS)


def test_encrypted_archives_are_refused() -> None:
    content = bytearray(files.archive({"mimetype": "application/epub+zip"}))
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        central = archive.start_dir
    content[6] |= 1  # the flag of encryption, in the entry and in the directory
    content[central + 8] |= 1
    with pytest.raises(FileRefused, match="encrypted"):
        recognise(io.BytesIO(bytes(content)), "a.epub", NO_SCANS)
