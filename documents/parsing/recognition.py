"""Recognises the format of a file by its content; the name decides only among formats that are plain text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO

from documents.errors import DamagedFile, UnsupportedFormat
from documents.parsing import delimited, docx, epub, html, image, markdown, open_xml, pdf, pptx, text_file, xlsx
from documents.parsing.archive import Archive
from documents.parsing.block_collector import BlockCollector
from documents.parsing.scans import Scans
from documents.parsing.text_decoding import decode_text

Reader = Callable[[BinaryIO, BlockCollector], None]
"""Reads an open file of one format into blocks. Raises `FileRefused`, or what its library raises for a damaged file."""

_HEAD = 8192
_PDF_WITHIN = 1024
"""Bytes within which a PDF file begins, as readers accept it."""
_EPUB = b"application/epub+zip"
_OFFICE_READERS: dict[str, Reader] = {"word/": docx.read, "ppt/": pptx.read, "xl/": xlsx.read}
"""Readers of Office files by the folder of their main part."""
_UNREAD = (
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "an Office file of before 2007 or with a password: save it as DOCX, PPTX or XLSX",
    ),
    (b"{\\rtf", "a Rich Text file: save it as DOCX"),
    (b"GIF8", "an image"),
    (b"\x1f\x8b", "a compressed archive: import the files in it"),
    (b"7z\xbc\xaf\x27\x1c", "a compressed archive: import the files in it"),
    (b"Rar!", "a compressed archive: import the files in it"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\0", "a program"),
)
"""First bytes of formats that are not read, and what a file of each is."""
_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*")
"""First bytes of the images whose text is recognised: PNG, JPEG and TIFF."""
_HTML = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_MARKDOWN = frozenset({"md", "markdown", "mdown", "mdx", "mkd", "qmd", "rmd"})
_DELIMITED = frozenset({"csv", "tab", "tsv"})
_CODE = frozenset({
    "asm", "bash", "bat", "c", "cc", "cfg", "clj", "cmake", "conf", "cpp", "cs", "css", "cu", "cxx", "dart", "diff",
    "env", "erl", "ex", "exs", "f90", "fs", "go", "gradle", "graphql", "groovy", "h", "hpp", "hs", "ini", "ipynb",
    "java", "jl", "js", "json", "jsonl", "jsx", "kt", "lisp", "lua", "m", "mjs", "ml", "nim", "patch", "php", "pl",
    "pm", "properties", "proto", "ps1", "py", "pyi", "r", "rb", "rs", "sas", "scala", "scss", "sh", "sql", "swift",
    "tcl", "tex", "tf", "toml", "ts", "tsx", "v", "vb", "vhdl", "vue", "xml", "xsd", "xsl", "yaml", "yml", "zig",
    "zsh",
})  # fmt: skip


def recognise(file: BinaryIO, filename: str, scans: Scans) -> Reader:
    """Return the reader of the format that the content of `file` has; it reads scanned pages by `scans`.

    Raises:
        UnsupportedFormat: it is of another format; the message names known ones.
        DamagedFile: it is empty, or an incomplete archive.
    """
    file.seek(0)
    head = file.read(_HEAD)
    if not head:
        raise DamagedFile("The file is empty.")
    if b"%PDF-" in head[:_PDF_WITHIN]:
        return partial(pdf.read, scans=scans)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _archive_reader(Archive(file))
    if head.startswith(_IMAGES):
        return partial(image.read, scans=scans)
    for beginning, name in _UNREAD:
        if head.startswith(beginning):
            raise UnsupportedFormat(f"The file has a format that is not read: {name}.")
    return _text_reader(head, PurePosixPath(filename).suffix.lower().lstrip("."))


def _archive_reader(archive: Archive) -> Reader:
    kind = archive.read("mimetype").strip() if "mimetype" in archive and archive.size("mimetype") < _HEAD else b""
    if kind == _EPUB:
        return epub.read
    part = open_xml.main_part(archive)
    for folder, reader in _OFFICE_READERS.items():
        if part.startswith(folder) and part.endswith(".xml"):
            return reader
    if b"opendocument" in kind:
        name = "an OpenDocument file: save it as DOCX, PPTX, XLSX or PDF"
    elif part:
        name = "an Office file of another kind: save it as DOCX, PPTX or XLSX"
    else:
        name = "a compressed archive: import the files in it"
    raise UnsupportedFormat(f"The file has a format that is not read: {name}.")


def _text_reader(head: bytes, extension: str) -> Reader:
    start = decode_text(_whole_characters(head))
    if extension in _CODE:
        return text_file.read_code
    if _HTML.match(start) or (extension in ("htm", "html", "xhtml") and "<" in start):
        return html.read
    if extension in _MARKDOWN:
        return markdown.read
    if extension in _DELIMITED:
        return delimited.read
    return text_file.read_code if start.startswith("#!") else text_file.read


def _whole_characters(head: bytes) -> bytes:
    """Return the beginning of a file without the last bytes, which may be a part of a character."""
    return head if len(head) < _HEAD else head[: head.rfind(b"\n") + 1 or _HEAD - 8]
