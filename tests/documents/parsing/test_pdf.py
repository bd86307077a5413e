"""PDF files: text by its place on the page, and pages that can't be read."""

from __future__ import annotations

import io

import pytest

from documents.content import Block, Document
from documents.errors import DamagedFile, EncryptedFile, FileTooLarge
from documents.parsing.reader import read_document
from documents.parsing.scans import Scans
from tests.documents.parsing.files import Text, encrypted_pdf, pdf, raw_pdf, scanned_pdf


def read(content: bytes) -> Document:
    return read_document(io.BytesIO(content), "file", Scans(None, 0.0))


def test_headings_paragraphs_and_lists() -> None:
    document = read(
        pdf(
            [
                Text("Żaby i rzekotki", 72, 780, 20),
                Text("Gęślą jaźń, a pięć żab skacze", 72, 740),
                Text("przez rów.", 72, 726),
                Text("Drugi akapit.", 72, 690),
            ],
            [
                Text("• pierwsza", 72, 780),
                Text("• druga, która ma", 72, 766),
                Text("dwa wiersze", 80, 752),
                Text("1. trzecia", 72, 738),
            ],
        )
    )
    assert document == Document(
        (
            Block("heading", "Żaby i rzekotki", level=1, page=1),
            Block("paragraph", "Gęślą jaźń, a pięć żab skacze przez rów.", page=1),
            Block("paragraph", "Drugi akapit.", page=1),
            Block("list", "- pierwsza\n- druga, która ma dwa wiersze\n1. trzecia", page=2),
        ),
        pages=2,
    )


def test_simple_tables() -> None:
    rows = [("nazwa", "ile", "gdzie"), ("żaba zielona", "3", "staw"), ("rzekotka", "12", "")]
    texts = [
        Text(cell, x, 700 - 14 * line)
        for line, row in enumerate(rows)
        for cell, x in zip(row, (72, 250, 350), strict=True)
        if cell
    ]
    found = read(pdf([Text("Przed tabelą.", 72, 740), *texts, Text("Po tabeli.", 72, 620)])).blocks
    assert [(block.kind, block.text) for block in found] == [
        ("paragraph", "Przed tabelą."),
        ("table", "| nazwa | ile | gdzie |\n| --- | --- | --- |\n| żaba zielona | 3 | staw |\n| rzekotka | 12 |  |"),
        ("paragraph", "Po tabeli."),
    ]


def test_headings_have_levels_by_size() -> None:
    lines = [Text("Rozdział", 72, 780, 24), Text("Część", 72, 740, 16)]
    lines += [Text("Zwykły tekst, którego jest najwięcej na stronie.", 72, 700 - 30 * line) for line in range(4)]
    assert [block.level for block in read(pdf(lines)).blocks[:3]] == [1, 2, None]


def test_running_headers_and_footers_are_left_out() -> None:
    pages = [
        [Text("Atlas płazów", 72, 810), Text(f"Treść strony {name}.", 72, 700), Text(f"Strona {number} z 5", 72, 30)]
        for number, name in enumerate(["pierwszej", "drugiej", "trzeciej", "czwartej", "piątej"], start=1)
    ]
    assert [block.text for block in read(pdf(*pages)).blocks] == [page[1].text for page in pages]


def test_scanned_pages_are_named() -> None:
    document = read(scanned_pdf(3, 3, 6, 3))
    assert document == Document((), pages=4, warnings=("Scanned without text, and not read: pages 1-2, 4 of 4.",))


def test_a_password_is_named() -> None:
    with pytest.raises(EncryptedFile):
        read(encrypted_pdf())


@pytest.mark.parametrize("content", [b"%PDF-1.7\n", b"%PDF-1.7\n" + b"\xff" * 5000, pdf([Text("a", 9, 9)])[:300]])
def test_an_incomplete_file_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedFile):
        read(content)


@pytest.mark.parametrize("claimed", [5001, 1_000_000])
def test_claims_of_many_pages_are_refused(claimed: int) -> None:
    with pytest.raises(FileTooLarge, match=f"{claimed:,} pages"):
        read(raw_pdf("<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Count {claimed} /Kids [] >>"))


def test_pages_that_are_only_claimed_are_damaged() -> None:
    with pytest.raises(DamagedFile):
        read(raw_pdf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 4000 /Kids [] >>"))
