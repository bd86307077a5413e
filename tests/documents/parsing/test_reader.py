"""Text in images of scanned pages is recognised in the confined process, within its limits, and keeps its page."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace

import pytest
from PIL import Image

from documents.content import Document
from documents.errors import UnsupportedFormat
from documents.parsing import parser as parser_module
from documents.parsing.parser import LIMITS, NO_LANGUAGES, DocumentParser
from tests.documents.parsing.files import SCAN, raw_pdf, scanned_pdf
from tests.documents.parsing.scanned import ENGLISH, POLISH, page, require_tesseract, saved, scanned, strokes

SCANNED = "Scanned without text, and not read: pages 1-2, 4 of 4."


@pytest.fixture
async def parser() -> AsyncIterator[DocumentParser]:
    require_tesseract()
    with closing(DocumentParser()) as running:
        yield running


async def parse(parser: DocumentParser, content: bytes) -> Document:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return await parser.parse(file, "file")


def by_page(document: Document) -> list[tuple[int | None, str]]:
    return [(block.page, block.text) for block in document.blocks]


async def test_scanned_pages_are_read_in_english_and_polish(parser: DocumentParser) -> None:
    found = await parse(parser, scanned(page(*ENGLISH, heading="Lease"), page(*POLISH, heading="Umowa")))
    assert by_page(found) == [(1, "Lease"), (1, " ".join(ENGLISH)), (2, "Umowa"), (2, " ".join(POLISH))]
    assert [block.kind for block in found.blocks] == ["heading", "paragraph"] * 2
    assert (found.pages, found.recognised_pages, found.warnings) == (2, 2, ())


@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "TIFF"])
async def test_images_are_read(parser: DocumentParser, image_format: str) -> None:
    found = await parse(parser, saved(page(*POLISH), image_format))
    assert by_page(found) == [(1, " ".join(POLISH))]
    assert (found.pages, found.recognised_pages, found.warnings) == (1, 1, ())


async def test_a_tiff_has_pages(parser: DocumentParser) -> None:
    blank = page()
    found = await parse(parser, saved(page(*ENGLISH), "TIFF", [blank, page(*POLISH)], compression="tiff_lzw"))
    assert by_page(found) == [(1, " ".join(ENGLISH)), (3, " ".join(POLISH))]
    assert found.warnings == ("Scanned, and not read because no text was found: page 2 of 3.",)


async def test_text_that_the_file_has_is_not_recognised(parser: DocumentParser) -> None:
    found = await parse(parser, scanned_pdf(7, 3, 7))
    assert by_page(found) == [(1, "frog"), (3, "frog")]
    assert (found.recognised_pages, found.warnings) == (
        0,
        ("Scanned, and not read because no text was found: page 2 of 3.",),
    )


# --- Where no text is recognised --------------------------------------------------------------------


async def test_without_the_data_of_a_language_an_administrator_can_install_them() -> None:
    require_tesseract()
    install = (
        "An administrator can install Tesseract's data of the language xyz, by which text in images is recognised."
    )
    with closing(DocumentParser(languages="eng+xyz")) as parser:
        assert await parse(parser, scanned_pdf(3, 3, 6, 3)) == Document((), pages=4, warnings=(SCANNED, install))
        with pytest.raises(UnsupportedFormat, match=f"not read: an image. {install}"):
            await parse(parser, saved(page(*ENGLISH), "PNG"))


async def test_recognition_that_is_switched_off() -> None:
    with closing(DocumentParser(languages=NO_LANGUAGES)) as parser:
        assert await parse(parser, scanned_pdf(3, 3, 6, 3)) == Document((), pages=4, warnings=(SCANNED,))
        with pytest.raises(UnsupportedFormat, match=r"not read: an image\.$"):
            await parse(parser, saved(page(*ENGLISH), "PNG"))


# --- Hostile files and limits -----------------------------------------------------------------------


async def test_huge_images_are_not_decoded(parser: DocumentParser) -> None:
    huge = Image.new("1", (30_000, 30_000), 1)
    large = "Scanned, and not read because their images are too large: page 1 of"
    found = await parse(parser, scanned(huge, page(*ENGLISH)))
    assert (by_page(found), found.warnings) == ([(2, " ".join(ENGLISH))], (f"{large} 2.",))
    for image_format in ("PNG", "TIFF"):
        assert await parse(parser, saved(huge, image_format)) == Document((), pages=1, warnings=(f"{large} 1.",))


async def test_an_image_that_claims_more_pixels_than_it_has_is_harmless(parser: DocumentParser) -> None:
    image = SCAN[2].replace("/Width 1 /Height 1", "/Width 9000 /Height 9000")
    pages = "<< /Type /Pages /Count 1 /Kids [3 0 R] >>"
    found = await parse(parser, raw_pdf("<< /Type /Catalog /Pages 2 0 R >>", pages, *SCAN[:2], image))
    assert by_page(found) == []


async def test_pages_that_take_too_long_are_named_and_those_before_are_kept() -> None:
    require_tesseract()
    with closing(DocumentParser(recognition_seconds=3.0)) as parser:
        found = await parse(parser, scanned(page(*ENGLISH, height=500), strokes(), page(*POLISH)))
    assert by_page(found) == [(1, " ".join(ENGLISH))]
    late = "recognising the text of all pages takes longer than it may"
    assert found.warnings == (f"Scanned, and not read because {late}: pages 2-3 of 3.",)


async def test_of_500_scanned_pages_those_are_read_for_which_there_is_time() -> None:
    require_tesseract()
    small = page(ENGLISH[0], ENGLISH[1], ENGLISH[0], height=500)
    with closing(DocumentParser(recognition_seconds=2.0)) as parser:
        found = await parse(parser, scanned(*[small] * 500))
    read = found.recognised_pages
    assert 0 < read < 500
    # The first and the last line are left out as running headers and footers.
    assert by_page(found) == [(number, ENGLISH[1]) for number in range(1, read + 1)]
    [warning] = found.warnings
    assert warning.endswith(f"takes longer than it may: pages {read + 1}-500 of 500.")


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("loop", "Recognising the text of its images takes more CPU time than it may."),
        ("allocate", "Recognising the text of its images takes more memory than it may."),
        ("crash", "Recognising the text of its images failed."),
        ("invalid_messages", "Recognising the text of its images failed."),
    ],
)
async def test_the_text_of_a_file_outlives_its_recognition(
    monkeypatch: pytest.MonkeyPatch, work: str, reason: str
) -> None:
    monkeypatch.setattr(parser_module, "RECOGNISING_WORK", "tests.fakes.hostile_work:named")
    monkeypatch.setattr(parser_module, "_LATE_SECONDS", 0.0)
    limits = replace(LIMITS, cpu_seconds=0.5, memory_bytes=256 * 2**20)
    with closing(DocumentParser(limits, languages=work, recognition_seconds=0.0)) as parser:
        found = await parse(parser, scanned_pdf(7, 3))
        assert by_page(found) == [(1, "frog")]
        assert found.warnings == ("Scanned without text, and not read: page 2 of 2.", reason)
        with pytest.raises(UnsupportedFormat, match=f"an image. {reason}"):
            await parse(parser, saved(page(), "PNG"))
