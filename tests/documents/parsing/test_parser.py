"""Files are parsed in confined processes; hostile ones are refused or harmless, within the limits."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace

import openpyxl
import pptx
import pytest

from documents.content import Block, Document
from documents.errors import DamagedFile, FileRefused, FileTooLarge, ParserUnavailable
from documents.parsing import parser as parser_module
from documents.parsing.archive import MAX_ENTRIES, MAX_PART_BYTES
from documents.parsing.parser import LIMITS, MAX_FILE_BYTES, DocumentParser
from tests.documents.parsing.files import Text, archive, docx, epub, office, pdf, raw_pdf, relationships

PARAGRAPH = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
CATALOGUE = "<< /Type /Catalog /Pages 2 0 R >>"
SECRET = "file:///etc/passwd"


@pytest.fixture
async def parser() -> AsyncIterator[DocumentParser]:
    running = DocumentParser()
    yield running
    running.close()


async def parse(parser: DocumentParser, content: bytes, filename: str = "file") -> Document:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return await parser.parse(file, filename)


def texts(document: Document) -> list[str]:
    return [block.text for block in document.blocks]


def saved(made: openpyxl.Workbook | pptx.presentation.Presentation) -> bytes:
    written = io.BytesIO()
    made.save(written)
    return written.getvalue()


def workbook() -> bytes:
    made = openpyxl.Workbook()
    made.active.append(["żaba", 1])
    return saved(made)


def presentation() -> bytes:
    made = pptx.Presentation()
    made.slides.add_slide(made.slide_layouts[0]).shapes.title.text = "żaba"
    return saved(made)


ONE_OF_EACH = [
    ("a.pdf", pdf([Text("żaba", 72, 700)])),
    ("a.docx", docx(PARAGRAPH.format("żaba"))),
    ("a.pptx", presentation()),
    ("a.xlsx", workbook()),
    ("a.epub", epub({"a.xhtml": "<html><p>żaba</p></html>"})),
    ("a.html", b'<html><meta charset="windows-1250"><p>\xbfaba'),
    ("b.html", '<html><meta charset="no-such"><p>żaba'.encode()),
    ("a.md", "# żaba".encode()),
    ("a.csv", "żaba,1".encode()),
    ("a.txt", "Jest żaba, a przy niej gęś: żółta jak słońce.".encode("iso8859_2")),
    ("a.py", "x = 'żaba'".encode()),
]


async def test_files_of_every_format_are_parsed_at_once(parser: DocumentParser) -> None:
    found = await asyncio.gather(*(parse(parser, content, name) for name, content in ONE_OF_EACH))
    assert ["żaba" in document.text for document in found] == [True] * len(ONE_OF_EACH)


@pytest.mark.parametrize(("name", "content"), ONE_OF_EACH[:5])
async def test_damaged_files_are_refused_or_read_in_part(parser: DocumentParser, name: str, content: bytes) -> None:
    for cut in range(1, 8):
        broken = bytearray(content)
        broken[len(content) * cut // 8] ^= 0xFF
        for each in (content[: len(content) * cut // 8], bytes(broken)):
            with contextlib.suppress(FileRefused):
                assert isinstance(await parse(parser, each, name), Document)


# --- Sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [MAX_FILE_BYTES + 1, 2 * 2**30])
async def test_large_files_are_refused_before_they_are_read(size: int) -> None:
    parser = DocumentParser()
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        with pytest.raises(FileTooLarge, match="larger than"):
            await parser.parse(file, "a.txt")
    assert parser._server.pid is None


@pytest.mark.parametrize("kind", ["document", "sheet", "chapter"])
async def test_zip_bombs_are_refused_before_they_are_inflated(parser: DocumentParser, kind: str) -> None:
    bomb = b" " * (MAX_PART_BYTES + 1)
    content = {
        "document": office("word/document.xml", {"word/document.xml": bomb}),
        "sheet": office("xl/workbook.xml", {"xl/workbook.xml": "<a/>", "xl/worksheets/sheet1.xml": bomb}),
        "chapter": epub({}, {"OEBPS/book.opf": bomb}) if kind == "chapter" else b"",
    }[kind]
    with pytest.raises(FileTooLarge, match="compressed parts"):
        await parse(parser, content)


async def test_a_part_that_is_larger_than_it_claims_is_not_inflated_further(parser: DocumentParser) -> None:
    size = (2**20).to_bytes(4, "little")
    content = office("word/document.xml", {"word/document.xml": b" " * 2**20})
    assert content.count(size) == 2  # in the entry and in the directory
    with pytest.raises(DamagedFile):
        await parse(parser, content.replace(size, (100).to_bytes(4, "little")))


async def test_parts_that_are_not_read_may_be_bombs(parser: DocumentParser) -> None:
    nested = archive({"bomb.zip": archive({"bomb": bytes(2 * MAX_PART_BYTES)})})
    content = office(
        "word/document.xml",
        {
            "word/document.xml": zipfile.ZipFile(io.BytesIO(docx(PARAGRAPH.format("żaba")))).read("word/document.xml"),
            "word/media/image.png": bytes(2 * MAX_PART_BYTES),
            "word/embeddings/nested.docx": nested,
        },
    )
    assert texts(await parse(parser, content)) == ["żaba"]


async def test_archives_of_many_parts_are_refused(parser: DocumentParser) -> None:
    with pytest.raises(FileTooLarge, match="parts"):
        await parse(parser, archive(dict.fromkeys(map(str, range(MAX_ENTRIES + 1)), "")))


async def test_claimed_cells_take_neither_memory_nor_time(parser: DocumentParser) -> None:
    made = openpyxl.Workbook()
    made.active["A1"], made.active["XFD1048576"] = "first", "last"
    assert texts(await parse(parser, saved(made)))[1:] == ["first", "last"]


# --- XML ------------------------------------------------------------------------------------------

LAUGHS = "".join(f'<!ENTITY l{level} "{f"&l{level - 1};" * 10}">' for level in range(1, 11))
BOMB = f'<!DOCTYPE a [<!ENTITY l0 "laugh">{LAUGHS}]>'
QUADRATIC = f'<!DOCTYPE a [<!ENTITY l10 "{"x" * 50_000}">]>'
EXTERNAL = f'<!DOCTYPE a [<!ENTITY l10 SYSTEM "{SECRET}">]>'
DTD = f'<!DOCTYPE a SYSTEM "{SECRET}">'


@pytest.mark.parametrize("declaration", [BOMB, QUADRATIC, EXTERNAL])
@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx", "epub"])
async def test_entities_are_refused(parser: DocumentParser, kind: str, declaration: str) -> None:
    bomb = f"{declaration}<a>{'&l10;' * 1000}</a>"
    content = {
        "docx": office("word/document.xml", {"word/document.xml": bomb}),
        "pptx": office("ppt/presentation.xml", {"ppt/presentation.xml": bomb}),
        "xlsx": replaced(workbook(), "xl/worksheets/sheet1.xml", bomb),
        "epub": epub({}, {"OEBPS/book.opf": bomb}) if kind == "epub" else b"",
    }[kind]
    with pytest.raises(DamagedFile):
        await parse(parser, content)


@pytest.mark.parametrize("declaration", [BOMB, QUADRATIC, EXTERNAL, DTD])
async def test_entities_of_html_are_not_expanded(parser: DocumentParser, declaration: str) -> None:
    chapter = f"{declaration}<html><body><p>żaba &l10;</p></body></html>"
    for content in (epub({"a.xhtml": chapter}), chapter.encode()):
        found = await parse(parser, content, "a.html")
        assert "żaba" in found.text
        assert len(found.text) < 200_000
        assert "root:" not in found.text


def replaced(content: bytes, name: str, part: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return archive({each: part if each == name else file.read(each) for each in file.namelist()})


# --- Names, links and macros ------------------------------------------------------------------------


async def test_names_with_paths_and_links_lead_nowhere(parser: DocumentParser) -> None:
    related = relationships(
        ("styles", "styles", "../../../../../etc/passwd"), ("footnotes", "footnotes", "/etc/passwd")
    )
    written = io.BytesIO(docx(PARAGRAPH.format("żaba")))
    with zipfile.ZipFile(written, "a") as file:
        file.writestr("../../../tmp/outside", "x")
        link = zipfile.ZipInfo("word/link")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
    assert texts(await parse(parser, written.getvalue(), "../../a/b\0.docx")) == ["żaba"]
    content = replaced(written.getvalue(), "word/_rels/document.xml.rels", related)
    assert texts(await parse(parser, content)) == ["żaba"]


async def test_macros_and_external_targets_are_ignored(parser: DocumentParser) -> None:
    content = replaced(docx(PARAGRAPH.format("żaba"), vbaProject="x"), "word/vbaProject.xml", "no XML")
    external = relationships(("styles", "styles", SECRET)).replace("/>", ' TargetMode="External"/>')
    assert texts(await parse(parser, content)) == ["żaba"]
    assert texts(await parse(parser, replaced(content, "word/_rels/document.xml.rels", external))) == ["żaba"]


# --- PDF ------------------------------------------------------------------------------------------

PAGE = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R {} >>"
LOOPS = {
    "a page tree that contains itself": (CATALOGUE, "<< /Type /Pages /Kids [2 0 R 2 0 R] >>"),
    "page trees that contain each other": (
        CATALOGUE,
        "<< /Type /Pages /Count 9 /Kids [3 0 R 3 0 R] >>",
        "<< /Type /Pages /Count 9 /Parent 3 0 R /Kids [2 0 R 2 0 R] >>",
    ),
    "a form that draws itself": (
        CATALOGUE,
        "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        PAGE.format("/Resources << /XObject << /X 4 0 R >> >>"),
        "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 4 0 R >> >> /Length 11 >>\n"
        "stream\n/X Do /X Do\nendstream",
    ),
    "a reference to itself": (CATALOGUE, "2 0 R"),
    "a length that is its own": (
        CATALOGUE,
        "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        PAGE.format(""),
        "<< /Length 4 0 R >>\nstream\nx\nendstream",
    ),
    "pages that inherit from each other": (
        CATALOGUE,
        "<< /Type /Pages /Parent 2 0 R /Count 1 /Kids [3 0 R] >>",
        "<< /Type /Page /Parent 2 0 R >>",
    ),
    "deep arrays": (CATALOGUE, "[" * 100_000),
}


@pytest.mark.parametrize("name", LOOPS)
async def test_loops_in_a_pdf_end(name: str) -> None:
    parser = DocumentParser(replace(LIMITS, memory_bytes=128 * 2**20, cpu_seconds=5.0))
    with contextlib.suppress(FileRefused):
        assert (await parse(parser, raw_pdf(*LOOPS[name]))).text == ""
    parser.close()


async def test_claims_of_a_billion_pages_are_refused(parser: DocumentParser) -> None:
    for count in (1_000_000, 1_000_000_000, 2**31 - 1):
        with pytest.raises(FileRefused):
            await parse(parser, raw_pdf(CATALOGUE, f"<< /Type /Pages /Count {count} /Kids [] >>"))


async def test_a_cross_reference_table_that_is_before_itself_ends(parser: DocumentParser) -> None:
    content = pdf([Text("żaba", 72, 700)])
    start = content[content.rindex(b"startxref") + 10 :].split()[0]
    assert texts(await parse(parser, content.replace(b"/Root", b"/Prev " + start + b" /Root"))) == ["żaba"]


async def test_scripts_of_a_pdf_are_not_run(parser: DocumentParser) -> None:
    script = "/OpenAction << /S /JavaScript /JS (while (true) {}) >>"
    content = raw_pdf(f"<< /Type /Catalog /Pages 2 0 R {script} >>", "<< /Type /Pages /Count 1 /Kids [3 0 R] >>", PAGE)
    assert await parse(parser, content) == Document((), pages=1, warnings=("The file has no text.",))


# --- Limits ---------------------------------------------------------------------------------------


async def test_a_file_that_takes_too_much_time_is_refused() -> None:
    parser = DocumentParser(replace(LIMITS, cpu_seconds=0.2))
    with pytest.raises(FileTooLarge, match="CPU time"):
        await parse(parser, docx(PARAGRAPH.format("żaba") * 300_000))
    assert texts(await parse(parser, b"frog", "a.txt")) == ["frog"]
    parser.close()


async def test_a_file_that_takes_too_much_memory_is_refused() -> None:
    parser = DocumentParser(replace(LIMITS, memory_bytes=64 * 2**20))
    with pytest.raises(FileTooLarge, match="memory"):
        await parse(parser, docx("<w:p/>" * 1_000_000))
    parser.close()


@pytest.mark.parametrize(
    ("work", "error"),
    [
        ("crash", DamagedFile),
        ("invalid_messages", DamagedFile),
        ("write_a_large_message", FileTooLarge),
        ("can_not_be_confined", ParserUnavailable),
    ],
)
async def test_a_parser_that_fails(monkeypatch: pytest.MonkeyPatch, work: str, error: type[Exception]) -> None:
    monkeypatch.setattr(parser_module, "WORK", f"tests.fakes.hostile_work:{work}")
    parser = DocumentParser(replace(LIMITS, message_bytes=2**19))
    with pytest.raises(error):
        await parse(parser, b"x")
    parser.close()


async def test_a_cancelled_parse_frees_its_slot(parser: DocumentParser) -> None:
    slow = docx(PARAGRAPH.format("żaba") * 100_000)
    tasks = [asyncio.create_task(parse(parser, slow)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await parse(parser, b"frog", "a.txt") == Document((Block("paragraph", "frog"),))
