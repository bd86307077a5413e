"""Defines the message of the sandboxed process that parses a file: the document, or why the file was refused."""

from __future__ import annotations

from typing import Literal

import msgspec

from documents.content import Document

Refusal = Literal["unsupported", "encrypted", "damaged", "too_large"]


class Parsed(msgspec.Struct, frozen=True, tag=True):
    """Message of the parser process: the document that it has read."""

    document: Document


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Message of the parser process: the file is refused; the sentence is for people."""

    refusal: Refusal
    sentence: str
    detail: str = ""
    """Type of the error that a parser library raised, for the log; empty without one."""


Frame = Parsed | Refused
