"""Parses XML and HTML of untrusted files: no entities of their own, no network, no other files, bounded depth."""

from __future__ import annotations

from lxml import etree

from documents.errors import DamagedFile


def parse_xml(content: bytes) -> etree._Element:
    """Return the root element of an XML document; its comments and processing instructions are left out.

    Raises:
        DamagedFile: it is not well-formed, or declares entities.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True, huge_tree=False
    )
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        _raise_if_out_of_memory(error)
        raise DamagedFile("The file is damaged: it has malformed XML.") from error
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and next(declared.iterentities(), None) is not None:
        raise DamagedFile("The file declares XML entities, which documents of its format must not.")
    return root


def parse_html(text: str) -> etree._Element | None:
    """Return the root element of HTML text, well-formed or not; `None` if it has no element."""
    parser = etree.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=False)
    try:
        return etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        _raise_if_out_of_memory(error)
        return None


def _raise_if_out_of_memory(error: etree.XMLSyntaxError) -> None:
    if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
        raise MemoryError from error


def attribute(element: etree._Element, name: str, namespace: str = "") -> str:
    """Return an attribute of an element, or an empty string."""
    return element.get(f"{{{namespace}}}{name}" if namespace else name) or ""
