"""Addresses of images in the data of steps, which is not trusted."""

from __future__ import annotations

from typing import Any

import pytest

from stored_objects.blobs.blobs import new_blob_id
from stored_objects.images.results import with_addresses


def test_each_image_has_its_address_beside_its_id() -> None:
    one, two = new_blob_id(), new_blob_id()
    data = {"arguments": {}, "result": {"type": "image", "size": "1x1", "images": [{"blob": one}, {"blob": two}]}}
    shown = with_addresses(data, lambda blob: f"/{blob}")
    images = [{"blob": one, "url": f"/{one}"}, {"blob": two, "url": f"/{two}"}]
    assert shown == {"arguments": {}, "result": {"type": "image", "size": "1x1", "images": images}}
    assert data["result"]["images"][0] == {"blob": one}


@pytest.mark.parametrize(
    "result", [None, "x", {"type": "page", "images": [{"blob": "b"}]}, {"type": "image", "images": 1}]
)
def test_other_results_are_left_as_they_are(result: Any) -> None:
    assert with_addresses({"result": result}, str) == {"result": result}


@pytest.mark.parametrize("image", [{"blob": "../x"}, {"blob": 1}, {"url": "https://elsewhere.example"}])
def test_what_is_no_blob_gets_no_address(image: dict[str, Any]) -> None:
    assert with_addresses({"result": {"type": "image", "images": [image, 1]}}, str)["result"]["images"] == [{}]
