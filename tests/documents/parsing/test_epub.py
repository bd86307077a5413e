"""EPUB books: chapters in the order of the spine."""

from __future__ import annotations

import io

import pytest

from documents.content import Block, Document
from documents.errors import DamagedFile, EncryptedFile
from documents.parsing.reader import read_document
from documents.parsing.scans import Scans
from tests.documents.parsing.files import archive, epub

CHAPTER = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>{}</html>'
ENCRYPTION = '<encryption xmlns:e="x"><e:CipherReference URI="{}"/></encryption>'


def read(content: bytes) -> Document:
    return read_document(io.BytesIO(content), "book", Scans(None, 0.0))


def test_a_book() -> None:
    book = epub({
        "z.xhtml": CHAPTER.format("<body><h1>Pierwszy</h1><p>Żaba.</p></body>"),
        "a.xhtml": CHAPTER.format("<body><h1>Drugi</h1><ul><li>a</li></ul></body>"),
    })  # fmt: skip
    assert read(book) == Document(
        (
            Block("heading", "Pierwszy", level=1),
            Block("paragraph", "Żaba."),
            Block("heading", "Drugi", level=1),
            Block("list", "- a"),
        ),
        title="Książka",
    )


def test_an_encrypted_book_is_refused() -> None:
    chapters = {"a.xhtml": CHAPTER.format("<p>x</p>")}
    with pytest.raises(EncryptedFile):
        read(epub(chapters, {"META-INF/encryption.xml": ENCRYPTION.format("OEBPS/text/a.xhtml")}))
    assert read(epub(chapters, {"META-INF/encryption.xml": ENCRYPTION.format("OEBPS/font.otf")})).blocks


def test_a_book_without_chapters_is_damaged() -> None:
    with pytest.raises(DamagedFile):
        read(epub({}))
    with pytest.raises(DamagedFile):
        read(archive({"mimetype": "application/epub+zip"}))
