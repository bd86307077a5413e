"""Reads one file of any format into a document; outside files only in a sandboxed process (`parser`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from documents.content import NO_TEXT, Document
from documents.errors import DamagedFile, EncryptedFile, FileRefused, FileTooLarge, UnsupportedFormat
from documents.parsing.block_collector import BlockCollector
from documents.parsing.frames import Frame, Order, Parsed, Refusal, Refused
from documents.parsing.recognition import recognise
from documents.parsing.scans import Scans
from documents.parsing.tesseract import Tesseract, TesseractUnavailable
from runtime.sandbox.child import Work

_REFUSALS: dict[type[FileRefused], Refusal] = {
    UnsupportedFormat: "unsupported",
    EncryptedFile: "encrypted",
    DamagedFile: "damaged",
    FileTooLarge: "too_large",
}
_frames = msgspec.msgpack.Encoder()
_orders = msgspec.msgpack.Decoder(Order)


def read_document(file: BinaryIO, filename: str, scans: Scans) -> Document:
    """Read an open file of any known format, its scanned pages by `scans`, and return its document.

    Raises:
        FileRefused: the file is damaged, encrypted, too large or of an unknown format.
        Exception: a library found the file damaged.
    """
    reader = recognise(file, filename, scans)
    blocks = BlockCollector()
    reader(file, blocks)
    document = msgspec.structs.replace(blocks.document(), recognised_pages=scans.recognised)
    if not document.blocks and not document.warnings:
        return msgspec.structs.replace(document, warnings=(NO_TEXT,))
    return document


def work(order: bytes, source: BinaryIO) -> Iterator[bytes]:
    """Read the file `source` by an encoded `Order` in the sandboxed process; yield one encoded frame.

    It is the function that `runtime.sandbox.child` runs there (`Work`). It names scanned pages, and does not read them.
    """
    yield _frames.encode(_frame(source, _orders.decode(order), None))


def recognising_work(languages: str) -> Work:
    """Return the work that reads a file as `work` does, and recognises the text of its scanned pages.

    Loads Tesseract with the data of `languages` (see `Tesseract`), before the process is confined.
    """
    try:
        engine = Tesseract(languages)
    except TesseractUnavailable as error:
        unavailable = _frames.encode(Refused("recognition_unavailable", str(error)))
        return lambda _order, _source: iter((unavailable,))
    return lambda order, source: iter((_frames.encode(_frame(source, _orders.decode(order), engine)),))


def _frame(file: BinaryIO, order: Order, engine: Tesseract | None) -> Frame:
    scans = Scans(engine, order.recognition_seconds)
    try:
        return Parsed(read_document(file, order.filename, scans), bool(scans.found))
    except FileRefused as error:
        return Refused(_REFUSALS[type(error)], str(error), scanned=bool(scans.found))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise errors of any type for damaged files
        return Refused("damaged", "The file is damaged.", f"{type(error).__module__}.{type(error).__qualname__}")
