"""Decodes HTTP responses of tools to text: valid UTF-8 as such, even if a charset other than UTF-16 is declared.

Codecs are chosen from a list, because Python has codecs that are no charsets (`punycode`, `unicode_escape`, `utf-7`)
and a header must not select one.
"""

from __future__ import annotations

import codecs
import re

_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CHARSETS = frozenset(
    codecs.lookup(name).name
    for name in (
        *("utf-8", "ascii", "big5", "euc-jp", "euc-kr", "gb18030", "gbk", "koi8-r", "koi8-u", "shift_jis", "tis-620"),
        *(f"iso-8859-{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
        *(f"windows-{number}" for number in range(1250, 1259)),
    )
)
_NOT_ASCII_COMPATIBLE = frozenset(codecs.lookup(name).name for name in ("utf-16", "utf-16-le", "utf-16-be"))
_LAST_RESORT = "windows-1252"
_META_BYTES = 1024
_META = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE)


def decode(body: bytes, declared: str | None) -> str:
    """Decode an HTTP response's body to text: by a byte order mark, else as valid UTF-8, else by the declared charset.

    Valid UTF-8 is taken as UTF-8 even if another charset is declared, except UTF-16 in the Content-Type.

    Args:
        body: the bytes, maybe an HTML document, which can declare a charset itself.
        declared: the charset of the Content-Type header; `None`: it has none.
    """
    for mark, name in _BYTE_ORDER_MARKS.items():
        if body.startswith(mark):
            return body.decode(name, "replace")
    stated = _known(declared)
    if stated in _NOT_ASCII_COMPATIBLE:
        return body.decode(stated, "replace")
    try:
        return body.decode()  # Other charsets' text with letters beyond ASCII is practically never valid UTF-8.
    except UnicodeDecodeError:
        charset = stated or _declared_in(body) or _LAST_RESORT
        return body.decode(charset, "replace")


def _known(name: str | None) -> str | None:
    """Return the codec of a charset; `None` if the charset is none of the list."""
    try:
        found = codecs.lookup(name or "").name
    except (LookupError, ValueError):
        return None
    return found if found in _CHARSETS or found in _NOT_ASCII_COMPATIBLE else None


def _declared_in(body: bytes) -> str | None:
    match = _META.search(body[:_META_BYTES])
    found = _known(match[1].decode("ascii", "replace")) if match else None
    return None if found in _NOT_ASCII_COMPATIBLE else found
