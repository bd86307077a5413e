"""Parses and validates an upstream provider's response with images: as many PNG files in base64 as requested."""

from __future__ import annotations

from base64 import b64decode
from typing import NamedTuple

import msgspec

from proxy.errors import InvalidAnswer

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_IMAGE_BYTES = 10 * 1024 * 1024
"""Maximum size of an image, which has to fit into one message of the broker (16 MiB) in base64."""
MAX_PROMPT_BYTES = 64 * 1024
"""Maximum size of a revised prompt."""


class ForwardedImage(NamedTuple):
    """An upstream's image, the bytes of a PNG file, and the prompt that it drew instead of the client's, or ""."""

    png: bytes
    revised_prompt: str


class _Image(msgspec.Struct):
    b64_json: str
    revised_prompt: str | None = None


class _Answer(msgspec.Struct):
    data: list[_Image]


_ANSWERS = msgspec.json.Decoder(_Answer)


def parse(body: bytes, count: int) -> list[ForwardedImage]:
    """Parse an upstream's response to an image request as exactly `count` PNG images, and return them in order.

    Raises:
        InvalidAnswer: the answer has another number of images, or one that is too large or no PNG file in base64.
    """
    try:
        answer = _ANSWERS.decode(body)
        images = [_image(each) for each in answer.data]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidAnswer(f"no images in base64: {error}") from error
    if len(images) != count:
        raise InvalidAnswer(f"{len(images)} images instead of {count}")
    return images


def _image(each: _Image) -> ForwardedImage:
    png, revised = b64decode(each.b64_json, validate=True), each.revised_prompt or ""
    if not png.startswith(PNG_SIGNATURE):
        raise InvalidAnswer("an image that is no PNG file")
    if len(png) > MAX_IMAGE_BYTES or len(revised.encode()) > MAX_PROMPT_BYTES:
        raise InvalidAnswer(f"an image of {len(png)} bytes, or its prompt, is too large")
    return ForwardedImage(png, revised)
