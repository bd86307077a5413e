"""Request bodies of images."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.images import MAX_IMAGES, ImageRequest


def parse(**fields: Any) -> ImageRequest:
    return ImageRequest.parse({"model": "m", "prompt": "a", **fields})


def test_values_that_change_nothing_are_accepted() -> None:
    neutral = parse(quality="standard", output_format="png", output_compression=100, stream=False, n=MAX_IMAGES)
    assert (neutral.n, neutral.size) == (MAX_IMAGES, None)


@pytest.mark.parametrize("fields", [{"n": 0}, {"prompt": ""}, {"response_format": "gif"}, {"seed": 2**63}])
def test_invalid_fields_are_named(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == next(iter(fields))


@pytest.mark.parametrize("fields", [{"quality": "high"}, {"style": "vivid"}, {"stream": True}, {"guidance_scale": 2}])
def test_unsupported_values_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedParameter):
        parse(**fields)
