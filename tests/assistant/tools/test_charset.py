"""Charsets of responses whose headers and documents are wrong about them."""

from __future__ import annotations

import pytest

from assistant.tools.charset import decode

TEXT = "Zażółć gęślą jaźń"


@pytest.mark.parametrize(
    ("body", "declared"),
    [
        (TEXT.encode(), "utf-8"),
        (TEXT.encode(), None),
        (TEXT.encode(), "iso-8859-1"),  # wrong: valid UTF-8 decides
        (TEXT.encode("utf-8-sig"), "windows-1250"),
        (TEXT.encode("utf-16"), None),
        (TEXT.encode("utf-16-le"), "UTF-16LE"),
        (TEXT.encode("windows-1250"), "windows-1250"),
        (TEXT.encode("iso-8859-2"), "ISO-8859-2"),
    ],
)
def test_text_is_read(body: bytes, declared: str | None) -> None:
    assert decode(body, declared) == TEXT


def test_a_document_declares_its_charset() -> None:
    page = '<html><meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2"><p>Łódź'
    assert decode(page.encode("iso-8859-2"), None) == page
    assert decode(page.encode("iso-8859-2"), "no-such-charset") == page


@pytest.mark.parametrize("codec", ["zlib", "rot13", "unicode_escape", "punycode", "utf-7", "base64", "\0", "é", "idna"])
def test_codecs_that_are_no_charsets_are_not_used(codec: str) -> None:
    assert decode(b"+AGE- \\u0041 \xff", codec) == "+AGE- \\u0041 ÿ"


def test_impossible_bytes_are_replaced() -> None:
    assert decode(b"a\x81b", None) == "a\ufffdb"
