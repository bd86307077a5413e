"""Reads EPUB books: the chapters of the spine in order, each an XHTML document."""

from __future__ import annotations

import posixpath
from typing import BinaryIO

from lxml import etree

from documents.errors import DamagedFile, EncryptedFile
from documents.parsing.archive import Archive, resolve
from documents.parsing.block_collector import BlockCollector
from documents.parsing.html import read_html
from documents.parsing.text_decoding import decode_markup
from documents.parsing.xml_trees import attribute

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_READ_TYPES = ("application/xhtml+xml", "text/html", "")


def read(file: BinaryIO, blocks: BlockCollector) -> None:
    """Read the EPUB book `file`.

    Raises:
        EncryptedFile: chapters are encrypted, by rights management.
    """
    archive = Archive(file)
    root = next(archive.xml(_CONTAINER).iter("{*}rootfile"), None)
    if root is None:
        raise DamagedFile("The file is damaged: the book has no list of its chapters.")
    name = resolve("", attribute(root, "full-path"))
    package, folder = archive.xml(name), posixpath.dirname(name)
    blocks.title = next((each.text or "" for each in package.iter("{http://purl.org/dc/elements/1.1/}title")), "")
    encrypted = _encrypted(archive)
    read_chapters = set()
    for chapter in _chapters(package, folder):
        if chapter in encrypted:
            raise EncryptedFile("The book is encrypted by digital rights management.")
        if chapter in archive and chapter not in read_chapters:
            read_chapters.add(chapter)
            read_html(decode_markup(archive.read(chapter)), blocks)
    if not read_chapters:
        raise DamagedFile("The file is damaged: the book has no chapters.")


def _chapters(package: etree._Element, folder: str) -> list[str]:
    """Return the names of the spine's parts that are text, in reading order."""
    items = {
        attribute(item, "id"): resolve(folder, attribute(item, "href"))
        for item in package.iter("{*}item")
        if attribute(item, "media-type") in _READ_TYPES
    }
    references = [attribute(each, "idref") for each in package.iter("{*}itemref")]
    return [items[each] for each in references if each in items]


def _encrypted(archive: Archive) -> set[str]:
    if _ENCRYPTION not in archive:
        return set()
    return {resolve("", attribute(each, "URI")) for each in archive.xml(_ENCRYPTION).iter("{*}CipherReference")}
