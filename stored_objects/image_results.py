"""Signed addresses in the results of image tools, which name stored images by their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stored_objects.blobs import is_blob_id

BlobAddress = Callable[[str], str]
"""Returns the signed address of a blob, by its id."""


def with_addresses(data: Mapping[str, Any], address: BlobAddress) -> dict[str, Any]:
    """Return the data of a step with the address of each image of its result (`url`) beside the blob's id.

    The data is untrusted; that of other results is returned as it is.
    """
    result = data.get("result")
    if not isinstance(result, dict) or result.get("type") != "image" or not isinstance(result.get("images"), list):
        return dict(data)
    images = [_with_address(each, address) for each in result["images"] if isinstance(each, dict)]
    return {**data, "result": {**result, "images": images}}


def _with_address(image: dict[str, Any], address: BlobAddress) -> dict[str, Any]:
    blob = image.get("blob")
    return {"blob": blob, "url": address(blob)} if isinstance(blob, str) and is_blob_id(blob) else {}
