"""Adds signed URLs to the results of an assistant's image tools, which name stored images by blob ids, for clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stored_objects.blobs.blobs import is_blob_id

BlobAddress = Callable[[str], str]
"""Returns the signed address of a blob, by its id."""


def with_addresses(data: Mapping[str, Any], address: BlobAddress) -> dict[str, Any]:
    """Return a copy of an answer's step `data` in which each image of an image result has its signed `url`.

    `address` returns the URL of a blob id. Data of other results is returned unchanged; all of it is untrusted.
    """
    result = data.get("result")
    if not isinstance(result, dict) or result.get("type") != "image" or not isinstance(result.get("images"), list):
        return dict(data)
    images = [_with_address(each, address) for each in result["images"] if isinstance(each, dict)]
    return {**data, "result": {**result, "images": images}}


def _with_address(image: dict[str, Any], address: BlobAddress) -> dict[str, Any]:
    blob = image.get("blob")
    return {"blob": blob, "url": address(blob)} if isinstance(blob, str) and is_blob_id(blob) else {}
