"""Reads one file of any format into a document; outside files only in a sandboxed process (`parser`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from documents.content import NO_TEXT, Document
from documents.errors import DamagedFile, EncryptedFile, FileRefused, FileTooLarge, UnsupportedFormat
from documents.parsing.block_collector import BlockCollector
from documents.parsing.frames import Frame, Parsed, Refusal, Refused
from documents.parsing.recognition import recognise

_REFUSALS: dict[type[FileRefused], Refusal] = {
    UnsupportedFormat: "unsupported",
    EncryptedFile: "encrypted",
    DamagedFile: "damaged",
    FileTooLarge: "too_large",
}
_frames = msgspec.msgpack.Encoder()


def read_document(file: BinaryIO, filename: str) -> Document:
    """Read an open file of any known format, and return its document.

    Raises:
        FileRefused: the file is damaged, encrypted, too large or of an unknown format.
        Exception: a library found the file damaged.
    """
    reader = recognise(file, filename)
    blocks = BlockCollector()
    reader(file, blocks)
    document = blocks.document()
    if not document.blocks and not document.warnings:
        return msgspec.structs.replace(document, warnings=(NO_TEXT,))
    return document


def work(order: bytes, source: BinaryIO) -> Iterator[bytes]:
    """Read the file `source`, whose name is `order`, in the sandboxed process; yield one encoded frame.

    It is the function that `runtime.sandbox.child` runs there (`Work`).
    """
    yield _frames.encode(_frame(source, order.decode("utf-8", "replace")))


def _frame(file: BinaryIO, filename: str) -> Frame:
    try:
        return Parsed(read_document(file, filename))
    except FileRefused as error:
        return Refused(_REFUSALS[type(error)], str(error))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise errors of any type for damaged files
        return Refused("damaged", "The file is damaged.", f"{type(error).__module__}.{type(error).__qualname__}")
