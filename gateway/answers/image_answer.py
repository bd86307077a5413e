"""Formats images as the JSON body of a response of `/v1/images/generations`.

An answer may hold megabytes, so it is written without an object for each image; tests validate it against the models
in `openai/images.py`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway.answers.event_frames import quoted


class DrawnImage(NamedTuple):
    """An image, the bytes of a PNG file, and the prompt that a provider drew instead of the client's, if any.

    With a `url` the answer refers to the stored image instead of containing it.
    """

    png: bytes
    revised_prompt: str = ""
    url: str = ""


def write(images: Sequence[DrawnImage], *, created: int, size: str) -> bytes:
    """Return the JSON body of an image response, from `images` in order of index: base64 or URLs.

    Encoding many images takes long enough to block an event loop: call it in a thread.
    """
    return b"".join(_parts(images, created, size))


def _parts(images: Sequence[DrawnImage], created: int, size: str) -> Iterator[bytes]:
    yield f'{{"created":{created},"data":['.encode()
    for index, image in enumerate(images):
        yield b"{" if index == 0 else b",{"
        yield f'"url":{quoted(image.url)}'.encode() if image.url else b'"b64_json":"%b"' % base64.b64encode(image.png)
        yield f',"revised_prompt":{quoted(image.revised_prompt)}}}'.encode() if image.revised_prompt else b"}"
    yield f'],"background":"opaque","output_format":"png","size":{quoted(size)}}}'.encode()
