"""Decodes bytes of text files whose encoding is not declared, or falsely."""

from __future__ import annotations

import codecs
import contextlib
import re

from documents.errors import UnsupportedFormat

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LATIN = ("cp1252", "cp1250", "iso8859_2")
_CYRILLIC = "cp1251"
_CYRILLIC_SHARE = 0.4
"""Share of bytes beyond ASCII, at least, of a text in Cyrillic letters; Latin ones have a third at most."""
_ENCODINGS = (
    *_LATIN, _CYRILLIC, "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "ascii", "latin-1", "iso8859_3",
    "iso8859_4", "iso8859_5", "iso8859_7", "iso8859_9", "iso8859_13", "iso8859_15", "iso8859_16", "cp437", "cp850",
    "cp852", "cp866", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "koi8_r", "koi8_u", "mac_roman",
    "shift_jis", "euc_jp", "iso2022_jp", "gb2312", "gbk", "gb18030", "big5", "euc_kr", "cp949", "tis_620",
)  # fmt: skip
"""Encodings that are decoded; a confined process can't import others."""
for _encoding in _ENCODINGS:
    codecs.lookup(_encoding)
_SAMPLE = 64 * 1024
_DECLARED = re.compile(
    rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})"
    rb"|<\?xml[^>]{0,200}encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{1,40})",
    re.IGNORECASE,
)


def decode_text(content: bytes) -> str:
    """Return the text of bytes in UTF-8, in UTF-16 or UTF-32 with a byte order mark, or in a recognised encoding.

    Raises:
        UnsupportedFormat: the bytes are no text.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    if b"\0" in content:
        raise UnsupportedFormat("The file has a format that is not read: it is no text, and no known document.")
    with contextlib.suppress(UnicodeDecodeError):
        return content.decode("utf-8")
    return content.decode(_recognised(content[:_SAMPLE]), "replace")


def _recognised(sample: bytes) -> str:
    """Return the encoding of one byte for each character that `sample` has: the one that makes most bytes letters."""
    beyond_ascii = bytes(each for each in sample if each > 0x7F)
    if len(beyond_ascii) > _CYRILLIC_SHARE * len(sample):
        return _CYRILLIC
    return max(_LATIN, key=lambda encoding: sum(map(str.isalpha, beyond_ascii.decode(encoding, "replace"))))


def decode_markup(content: bytes) -> str:
    """Return the text of HTML or XHTML bytes: by byte order mark, by declaration, or else as `decode_text` does."""
    declared = _DECLARED.search(content[:2048])
    if declared is not None and not content.startswith(tuple(mark for mark, _ in _BYTE_ORDER_MARKS)):
        name = (declared[1] or declared[2]).decode("ascii").lower()
        if not name.startswith(("utf-16", "utf-32")):  # the declaration itself is ASCII
            with contextlib.suppress(LookupError):
                return content.decode(name, "replace")
    return decode_text(content)
