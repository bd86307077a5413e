"""Plain text, source code and separated values, in the encodings that Polish files have."""

from __future__ import annotations

import io

import pytest

from documents.content import Block
from documents.errors import FileTooLarge, UnsupportedFormat
from documents.parsing.block_collector import MAX_CHARACTERS
from documents.parsing.delimited import recognise_separator
from documents.parsing.reader import read_document
from documents.parsing.scans import Scans

POLISH = "Pchnąć w tę łódź jeża lub ośm skrzyń fig. Zażółć gęślą jaźń, proszę bardzo, a potem odpocznij w cieniu."


def blocks(content: bytes, filename: str = "file") -> tuple[Block, ...]:
    return read_document(io.BytesIO(content), filename, Scans(None, 0.0)).blocks


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1250", "iso8859_2"])
def test_encodings(encoding: str) -> None:
    assert blocks(POLISH.encode(encoding)) == (Block("paragraph", POLISH),)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Łąka, żaba", "cp1250"),
        ("Łąka, żaba", "iso8859_2"),
        ("Größe: fünf Äpfel", "cp1252"),
        ("À l'école, des garçons", "cp1252"),
        ("Привет, мир", "cp1251"),
    ],
)
def test_short_texts(text: str, encoding: str) -> None:
    assert blocks(text.encode(encoding)) == (Block("paragraph", text),)


def test_paragraphs_and_lists() -> None:
    assert blocks(b"one\r\ntwo\r\n \r\n- a\r\n- b\r\n\x0cthree\x00"[:-1]) == (
        Block("paragraph", "one two"),
        Block("list", "- a\n- b"),
        Block("paragraph", "three"),
    )


def test_decomposed_letters_are_composed_and_invisible_characters_removed() -> None:
    assert blocks("z\u0307o\u0301\u200bl\u00adw\u0007".encode()) == (Block("paragraph", "żólw"),)


def test_source_code_is_divided_at_unindented_lines() -> None:
    source = b"import a\n\ndef f():\n    x\n\n    y\n\n\ndef g():\n    z\n"
    assert blocks(source, "a.py") == (
        Block("code", "import a"),
        Block("code", "def f():\n    x\n\n    y"),
        Block("code", "def g():\n    z"),
    )
    assert blocks(b"#!/bin/sh\nls\n")[0].kind == "code"


@pytest.mark.parametrize(("separator", "name"), [(",", "a.csv"), (";", "a.CSV"), ("\t", "a.tsv")])
def test_separated_values(separator: str, name: str) -> None:
    rows = [["nazwa", "opis"], ["żaba", f'"duża{separator} zielona\ni mokra"'], ["", ""], ["rzekotka", ""]]
    content = "\r\n".join(separator.join(row) for row in rows).encode("cp1250")
    assert blocks(content, name) == (
        Block(
            "table",
            f"| nazwa | opis |\n| --- | --- |\n| żaba | duża{separator.strip()} zielona i mokra |\n| rzekotka |  |",
        ),
    )


@pytest.mark.parametrize(
    ("text", "separator"),
    [("a;b\n1,5;2,5\n", ";"), ("a,b,c\n1,2,3\n", ","), ("a\nb\n", None), ("", None), ("a|b\nc|d", "|")],
)
def test_separators_are_recognised(text: str, separator: str | None) -> None:
    assert recognise_separator(text) == separator


def test_a_table_of_one_column_is_paragraphs() -> None:
    assert [block.kind for block in blocks(b"name\na\nb\n", "a.csv")] == ["paragraph"] * 3


def test_binary_content_is_no_text() -> None:
    with pytest.raises(UnsupportedFormat):
        blocks(b"abc\x00\x01", "a.txt")


def test_too_much_text_is_refused() -> None:
    with pytest.raises(FileTooLarge):
        blocks(b"x" * (MAX_CHARACTERS + 1))
