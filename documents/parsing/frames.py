"""Defines the order of the sandboxed process that parses a file, and its message: the document, or the refusal."""

from __future__ import annotations

from typing import Literal

import msgspec

from documents.content import Document

Refusal = Literal["unsupported", "encrypted", "damaged", "too_large", "recognition_unavailable"]


class Order(msgspec.Struct, frozen=True):
    """Order of a parser process: the file's name, and the CPU time for recognising the text of its images."""

    filename: str
    recognition_seconds: float = 0.0


class Parsed(msgspec.Struct, frozen=True, tag=True):
    """Message of the parser process: the document that it has read."""

    document: Document
    scanned: bool = False
    """Whether the file has scanned pages, whose text can be recognised."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Message of the parser process: the file is refused; the sentence is for people."""

    refusal: Refusal
    sentence: str
    detail: str = ""
    """Type of the error that a parser library raised, for the log; empty without one."""
    scanned: bool = False
    """Whether the file is an image, whose text can be recognised."""


Frame = Parsed | Refused
