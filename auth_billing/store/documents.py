"""Converts records (dataclasses) to MongoDB documents and back; a record's `id` is its document's `_id`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

RecordT = TypeVar("RecordT")


def to_document(record: Any, /, **stored: Any) -> dict[str, Any]:
    """Convert a record with an `id` to a MongoDB document; `stored`: values of fields stored in another form."""
    values = {**vars(record), **stored}
    return {"_id": values.pop("id"), **values}


def from_document(kind: type[RecordT], document: Mapping[str, Any], /, **read: Any) -> RecordT:
    """Convert a MongoDB document to a record of class `kind`; `read`: values of fields that are stored in another form.

    Fields that the document lacks, as those of earlier versions do, get their default; other fields are left out.
    """
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    values = {"id" if name == "_id" else name: value for name, value in document.items()}
    return kind(**{name: value for name, value in values.items() if name in names} | read)
