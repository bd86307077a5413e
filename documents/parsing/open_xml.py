"""Finds the main part and the properties of Office Open XML files (DOCX, PPTX, XLSX)."""

from __future__ import annotations

from documents.parsing.archive import Archive

_TITLE = "{http://purl.org/dc/elements/1.1/}title"


def main_part(archive: Archive) -> str:
    """Return the name of the main part of an Office file; empty if the archive is none."""
    return next((target for kind, target in archive.related("").values() if kind == "officeDocument"), "")


def title(archive: Archive) -> str:
    """Return the title in the properties of an Office file; empty without one."""
    for kind, target in archive.related("").values():
        if kind == "core-properties" and target in archive:
            return next((each.text or "" for each in archive.xml(target).iter(_TITLE)), "")
    return ""
