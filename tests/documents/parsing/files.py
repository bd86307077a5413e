"""Files of all formats, made for tests of their parsers."""

from __future__ import annotations

import ctypes
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import pypdfium2
from pypdfium2 import raw

FONT = Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
CONTENT_TYPES = b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'


class Text(NamedTuple):
    """A text at a place of a PDF page, in points from the lower left corner."""

    text: str
    x: float
    y: float
    size: float = 11.0


def pdf(*pages: Sequence[Text], title: str = "") -> bytes:
    """Return a PDF file with the texts of each page."""
    document = pypdfium2.PdfDocument.new()
    data = FONT.read_bytes()
    buffer = (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
    font = raw.FPDFText_LoadFont(document, buffer, len(data), raw.FPDF_FONT_TRUETYPE, True)
    for texts in pages:
        page = document.new_page(595, 842)
        for text in texts:
            item = raw.FPDFPageObj_CreateTextObj(document, font, text.size)
            encoded = ctypes.create_string_buffer((text.text + "\0").encode("utf-16-le"))
            raw.FPDFText_SetText(item, ctypes.cast(encoded, ctypes.POINTER(ctypes.c_ushort)))
            raw.FPDFPageObj_Transform(item, 1, 0, 0, 1, text.x, text.y)
            raw.FPDFPage_InsertObject(page, item)
        page.gen_content()
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


SCAN = (
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Resources << /XObject << /I 5 0 R >> >> /Contents 4 0 R >>",
    "<< /Length 5 >>\nstream\n/I Do\nendstream",
    "<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray /Length 1 >>\n"
    "stream\nx\nendstream",
)
"""Objects 3 to 5 of a `raw_pdf`: a page that is an image, its content and the image."""


def raw_pdf(*objects: str) -> bytes:
    """Return a PDF file of numbered objects, the first of which is the catalogue."""
    parts, offsets = [b"%PDF-1.7\n"], []
    for number, each in enumerate(objects, start=1):
        offsets.append(sum(map(len, parts)))
        parts.append(f"{number} 0 obj\n{each}\nendobj\n".encode())
    start = sum(map(len, parts))
    entries = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{entries}"
    parts.append(f"{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode())
    return b"".join(parts)


def scanned_pdf(*pages: int) -> bytes:
    """Return a PDF file with pages by the number of their object: 3 is scanned, 6 is blank, 7 has the text "frog"."""
    kids = " ".join(f"{page} 0 R" for page in pages)
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] {} >>"
    return raw_pdf(
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        *SCAN,
        page.format(""),
        page.format("/Resources << /Font << /F 9 0 R >> >> /Contents 8 0 R"),
        "<< /Length 36 >>\nstream\nBT /F 12 Tf 10 50 Td (frog) Tj ET    \nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )


def encrypted_pdf() -> bytes:
    """Return a PDF file that needs a password."""
    return raw_pdf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 0 /Kids [] >>").replace(
        b"/Root 1 0 R",
        b"/Root 1 0 R /ID [<00> <00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -1 "
        b"/O <" + b"00" * 32 + b"> /U <" + b"11" * 32 + b"> >>",
    )


def archive(parts: Mapping[str, bytes | str]) -> bytes:
    """Return a ZIP archive of parts by name."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return written.getvalue()


def relationships(*targets: tuple[str, str, str]) -> str:
    """Return the relationships of an Office part: id, kind and target of each."""
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    entries = "".join(f'<Relationship Id="{id_}" Type="{kinds}/{kind}" Target="{to}"/>' for id_, kind, to in targets)
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{entries}</Relationships>'
    )


def office(main: str, parts: Mapping[str, bytes | str]) -> bytes:
    """Return an Office file of parts, whose main part is `main`."""
    frame: dict[str, bytes | str] = {
        "[Content_Types].xml": CONTENT_TYPES,
        "_rels/.rels": relationships(("rId1", "officeDocument", main)),
    }
    return archive({**frame, **parts})


def docx(body: str, **parts: str) -> bytes:
    """Return a DOCX file with the XML of its body; `parts` are further ones of the folder `word`, by kind."""
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
    related = relationships(*((kind, kind, f"{kind}.xml") for kind in parts))
    others = {f"word/{kind}.xml": f'<w:{kind} xmlns:w="{namespace}">{text}</w:{kind}>' for kind, text in parts.items()}
    return office("word/document.xml", {
        "word/document.xml": document,
        "word/_rels/document.xml.rels": related,
        **others,
    })  # fmt: skip


def epub(chapters: Mapping[str, str], more: Mapping[str, bytes | str] | None = None, title: str = "Książka") -> bytes:
    """Return an EPUB book of XHTML chapters by file name, with further parts."""
    items = "".join(
        f'<item id="c{number}" href="text/{name}" media-type="application/xhtml+xml"/>'
        for number, name in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="c{number}"/>' for number in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata><dc:title>{title}</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    return archive({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": container,
        "OEBPS/book.opf": package,
        **{f"OEBPS/text/{name}": content for name, content in chapters.items()},
        **(more or {}),
    })  # fmt: skip
