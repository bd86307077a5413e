"""Converts usage, and the parts of a job's usage, to the fields of MongoDB documents and back.

usage: {prompt_tokens, completion_tokens, cached_tokens: int, units: {<unit>: int} | absent}
part: {model: str, <the fields of usage>}
reported: {attempt: str, <the fields of usage>, parts: [<part>] | absent, checks: [<part>] | absent}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.messages import Receipt, ReportedUsage, Usage, UsagePart

_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")


def usage_to_document(usage: Usage) -> dict[str, Any]:
    """Convert a usage (token and unit counts) to its fields in a MongoDB document; empty `units` are left out."""
    counts: dict[str, Any] = {name: getattr(usage, name) for name in _COUNTS}
    return {**counts, "units": dict(usage.units)} if usage.units else counts


def usage_from_document(document: Mapping[str, Any]) -> Usage:
    """Convert a MongoDB document's fields of a usage (token and unit counts) back; other fields are left out."""
    counts = {name: document[name] for name in _COUNTS if name in document}
    return Usage(**counts, units=document.get("units", {}))


def parts_to_documents(parts: Iterable[UsagePart]) -> list[dict[str, Any]]:
    """Convert the parts of a job's usage (of its steps, by model) to a list for a MongoDB document."""
    return [{"model": each.model, **usage_to_document(each.usage)} for each in parts]


def parts_from_documents(documents: Iterable[Mapping[str, Any]]) -> tuple[UsagePart, ...]:
    """Convert a MongoDB document's list of a job's parts of usage back to the parts."""
    return tuple(UsagePart(model=each["model"], usage=usage_from_document(each)) for each in documents)


def reported_to_document(reported: ReportedUsage) -> dict[str, Any]:
    """Convert the usage that a worker reported of a finished job to the fields of a MongoDB document."""
    document = {"attempt": reported.attempt, **usage_to_document(reported.usage)}
    lists = {"parts": reported.parts, "checks": reported.checks}
    return {**document, **{name: parts_to_documents(parts) for name, parts in lists.items() if parts}}


def reported_from_document(document: Mapping[str, Any] | None) -> ReportedUsage | None:
    """Convert a MongoDB document to the usage that a worker reported of a finished job; `None` without a document."""
    if document is None:
        return None
    parts, checks = (parts_from_documents(document.get(name, ())) for name in ("parts", "checks"))
    return ReportedUsage(attempt=document["attempt"], usage=usage_from_document(document), parts=parts, checks=checks)


def stated(receipt: Receipt) -> dict[str, Any]:
    """Return what a receipt states as it is stored with the answer that its job is part of."""
    document = {**usage_to_document(receipt.usage), "outcome": receipt.outcome.value}
    if receipt.parts:
        document["parts"] = parts_to_documents(receipt.parts)
    if receipt.reported is not None:
        document["reported"] = reported_to_document(receipt.reported)
    return document
